"""One sample of every kind: what the golden bytes are made of, and what a mutated frame begins as."""

from typing import Any, Final

import msgspec

from proto.messages import KINDS, broker, egress, loop, memory, wire

_SESSION: Final = "chat-20260924-2102-0a1b2c"
_LABEL: Final[dict[str, Any]] = {"class": "private", "untrusted": False}
_TAINTED: Final[dict[str, Any]] = {"class": "secret", "untrusted": True}
_TIME: Final = "2026-09-24T21:02:03Z"
_REQUEST: Final[dict[str, Any]] = {
    "session": _SESSION,
    "call": "call_1",
    "tool": "memory",
    "arguments": {"action": "note", "text": "Grüße, 世界"},
}

_FIELDS: Final[dict[type[msgspec.Struct], dict[str, Any]]] = {
    wire.Ping: {"trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    wire.Ok: {},
    wire.Error: {"code": "busy", "message": "too many connections; try again", "runbook": "busy"},
    wire.Verify: {},
    wire.VerifyReply: {
        "journals": [{"path": "memory/edits/2026-09.jsonl", "lines": 2, "head": "0" * 64, "first_bad": None}]
    },
    memory.MemoryBlock: {},
    memory.MemoryBlockReply: {"text": "# soul.md\n"},
    memory.SessionUpdated: {"session": _SESSION},
    memory.MemoryCall: {"request": _REQUEST, "taint": "private", "untrusted": True},
    memory.Reindex: {},
    memory.Reindexed: {"logs": 42, "records": 1208, "notes": 7},
    memory.MemoryAdmin: {"command": "undo", "arg": "2026-09-24-0001"},
    memory.MemoryAdminReply: {"text": "undone"},
    memory.Edits: {"last": 10},
    memory.EditsReply: {"edits": [{"id": "2026-09-24-0001", "before": [], "after": ["a"]}]},
    memory.PendingEdits: {},
    memory.PendingEditsReply: {"edits": []},
    memory.MemoryShow: {},
    memory.MemoryShowReply: {
        "files": [{"file": "memory.md", "chars": 3, "limit": 2200, "text": "abc", "problem": None}],
        "left_out": [{"file": "user.md", "number": 1, "rule": 4, "reason": "an instruction phrase", "entry": "x"}],
        "index": {"logs": 1, "records": 2, "notes": 3, "damaged_logs": []},
        "review": False,
        "unread_notes": [{"number": 2, "reason": "no header", "text": "mine"}],
    },
    broker.SessionOpen: {
        "session": _SESSION, "new": True, "session_kind": "chat", "principal": "owner", "principal_class": "secret",
        "domain": "dom-me", "destination": "local", "auth": "none", "tree": None, "task": None, **_LABEL,
    },
    broker.SessionLabel: {"session": _SESSION, **_TAINTED},
    broker.SessionClose: {"session": _SESSION},
    broker.SessionReopen: {"session": _SESSION},
    broker.SessionState: {"session": _SESSION, **_TAINTED},
    broker.ToolRequest: _REQUEST,
    broker.ToolResponse: {"call": "call_1", "ok": True, "text": "noted", **_LABEL},
    broker.ApprovalWanted: {"approval": "ap-0123456789abcdef", "text": "http_fetch", "expires": _TIME},
    broker.ApprovalAnswer: {"approval": "ap-0123456789abcdef", "allow": True, "by": "bxctl"},
    broker.EgressAsk: {
        "session": _SESSION, "call": "1", "destination": "local", "method": "POST", "path": "/v1/chat/completions",
    },
    broker.EgressDecision: {"allow": False, "reasons": ["ceiling"], "message": "refused", **_TAINTED},
    broker.Approvals: {},
    broker.ApprovalsReply: {
        "approvals": [
            {
                "approval": "ap-0123456789abcdef", "session": _SESSION, "call": "call_1", "tool": "http_fetch",
                "text": "http_fetch", "asked": _TIME, "expires": _TIME, **_LABEL,
            }
        ]
    },
    broker.Grants: {},
    broker.GrantsReply: {
        "grants": [
            {
                "grant": "builtin-recall", "sha256": "0" * 64, "tool": "recall", "mode": "auto", "max_taint": "secret",
                "result_class": "private", "untrusted": False, "hosts": [], "paths": [], "patterns": [],
                "loopback": False,
            }
        ],
        "problems": [],
    },
    broker.PolicyShow: {},
    broker.PolicyShowReply: {
        "modules": [{"name": "tool.rego", "origin": "built-in", "text": "package boxmaker", "problem": None}],
        "problem": None,
    },
    broker.PolicyEval: {"tool": "recall", "arguments": {"query": "launch"}, **_LABEL},
    broker.PolicyEvalReply: {"verdict": "allow", "reasons": ["built-in"], "grant": "builtin-recall", "facts": "{}"},
    broker.SessionLabels: {},
    broker.SessionLabelsReply: {
        "sessions": [
            {
                "session": _SESSION, "session_kind": "chat", "principal": "owner", "destination": "local",
                "open": True, "opened": _TIME, **_LABEL,
            }
        ]
    },
    broker.Decisions: {"last": 5, "session": _SESSION},
    broker.DecisionsReply: {"decisions": [{"tool": "recall"}]},
    egress.Fetch: {"session": _SESSION, "call": "call_1", "url": "https://example.org/", "loopback": False},
    egress.Fetched: {
        "url": "https://example.org/", "status": 200, "content_type": "text/html", "text": "x", "truncated": False,
    },
    egress.FetchRedirected: {"status": 302, "location": "https://example.org/b"},
    egress.FetchFailed: {"reason": "address", "message": "example.org resolves inward"},
    egress.Usage: {"since": _TIME, "session": _SESSION},
    egress.UsageReply: {
        "rows": [
            {
                "destination": "local", "model": "m", "status": 200, "calls": 1, "input_tokens": 10,
                "output_tokens": None, "cache_read_tokens": 0,
            }
        ]
    },
    egress.Destinations: {},
    egress.DestinationsReply: {
        "destinations": [
            {
                "destination": "local", "base_url": "unix:run/egress-model/model.sock", "api": "openai-chat",
                "ceiling": "secret", "credential": None, "ready": True,
            }
        ],
        "problem": None,
    },
    loop.Chat: {"session": None, "text": "hello"},
    loop.ChatOpened: {"session": _SESSION, "new": True, "destination": "local", "model": "m", **_LABEL},
    loop.ChatDelta: {"text": "he"},
    loop.ChatTool: {"call": "call_1", "tool": "recall", "arguments": "{}", "state": "running", "text": ""},
    loop.ChatApproval: {"approval": "ap-0123456789abcdef", "call": "call_1", "text": "t", "expires": _TIME},
    loop.ChatLabel: _TAINTED,
    loop.ChatDone: {"session": _SESSION, "text": "hello", "input_tokens": 10, "output_tokens": None},
    loop.ChatFailed: {"session": _SESSION, "code": "model-error", "message": "no", "runbook": "model-error"},
    loop.ChatStop: {"session": _SESSION},
    loop.Sessions: {"last": 20},
    loop.SessionsReply: {
        "sessions": [
            {
                "session": _SESSION, "began": _TIME, "updated": _TIME, "records": 2, "first": "hello",
                "state": "open", **_LABEL,
            }
        ],
        "total": 1,
    },
    loop.SessionLog: {"session": _SESSION, "first": 0},
    loop.SessionLogReply: {"records": [{"kind": "user", "text": "hello"}], "next": None},
}  # fmt: skip

SAMPLES: Final[dict[str, msgspec.Struct]] = {
    name: msgspec.convert({"kind": name, **_FIELDS[kind]}, kind) for name, kind in KINDS.items() if kind in _FIELDS
}
