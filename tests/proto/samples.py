"""One sample of every kind: what the golden bytes are made of, and what a mutated frame begins as."""

from typing import Any, Final

import msgspec

from proto.messages import KINDS, broker, egress, loop, memory, spans, wire

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
_DECISION: Final[dict[str, Any]] = {
    "allow": False, "reasons": ["ceiling"], "message": "refused", "domain": "dom-me", **_TAINTED,
}  # fmt: skip
_CONTEXT: Final[dict[str, Any]] = {
    "turn": 1, "destination": "anthropic", "auth": "key", "route": "anthropic", "method": "POST",
    "path": "/v1/messages?beta=true", "status": 200, "model": "m",
}  # fmt: skip
_BEGUN: Final[dict[str, Any]] = {
    "kept": "contexts", "session": _SESSION, "call": "model-1", "domain": "dom-me", "observed_by": "egress",
    "time": _TIME, "retention_days": 30, "context": _CONTEXT, **_LABEL,
}  # fmt: skip
_PART: Final[dict[str, Any]] = {
    "name": "request", "size_bytes": 2, "sha256": "0" * 64, "whole": True,
    "headers": [["content-type", "application/json"]],
}  # fmt: skip
_KEPT: Final[dict[str, Any]] = {
    "kept": "contexts", "session": _SESSION, "call": "model-1", "domain": "dom-me", "observed_by": "egress",
    "time": _TIME, "drop_after": "2026-10-24T21:02:03Z", "entries": ["x"], "parts": [_PART], "context": _CONTEXT,
    "erased": None, **_LABEL,
}  # fmt: skip

_FIELDS: Final[dict[type[msgspec.Struct], dict[str, Any]]] = {
    wire.Ping: {"trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    wire.Ok: {},
    wire.Error: {"code": "busy", "message": "too many connections; try again", "runbook": "busy"},
    wire.Verify: {},
    wire.VerifyReply: {
        "journals": [{"path": "memory/edits/2026-09.jsonl", "lines": 2, "head": "0" * 64, "first_bad": None}]
    },
    wire.Backup: {},
    wire.BackupFile: {"path": "memory/edits/2026-09.jsonl", "size_bytes": 3, "mtime_ns": 1790284923000000000},
    wire.BackupPiece: {"data": b"{}\n"},
    wire.BackupEnd: {
        "format": 1,
        "files": 1,
        "journals": [{"path": "memory/edits/", "heads": "state/memoryd/heads", "text_fields": ["before", "after"]}],
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
    memory.KeepBegin: _BEGUN,
    memory.KeepBegun: {"handle": "k1"},
    memory.KeepPiece: {"handle": "k1", "part": "request", "offset": 0, "data": b"{}"},
    memory.KeepEnd: {"handle": "k1", "parts": [_PART], "context": None},
    memory.KeepWhole: {"begun": {"kind": "keep_begin", **_BEGUN}, "parts": [_PART], "bodies": [b"{}"]},
    memory.KeptList: {"kept": "contexts", "session": _SESSION, "last": 20, "before": None},
    memory.KeptListReply: {"items": [_KEPT], "more": False},
    memory.KeptShow: {"kept": "contexts", "session": _SESSION, "call": "model-1", "part": "request", "offset": 0},
    memory.KeptShowReply: {"item": _KEPT, "data": b"{}", "next_offset": None},
    memory.KeptErase: {"kept": "contexts", "session": _SESSION, "call": None},
    memory.KeptErased: {"items": 1},
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
    broker.ApprovalIgnored: {
        "session": _SESSION, "approval": "ap-0123456789abcdef", "by": "mattermost x", "why": "foreign",
    },
    broker.EgressAsks: {"asks": [{
        "session": _SESSION, "call": "model-1", "destination": "local", "method": "POST",
        "path": "/v1/chat/completions", "what": "call", "model": "m", "hosted_tools": ["web_search"],
        "spending": {
            "session_tokens": 100, "day_tokens": 1_000, "session_nusd": None, "day_nusd": 5, "metered": True,
        },
    }]},
    broker.EgressDecision: _DECISION,
    broker.EgressDecisions: {"answers": [{"kind": "egress_decision", **_DECISION}]},
    broker.ToolsList: {"session": _SESSION},
    broker.ToolsListReply: {"tools": ["recall", "memory"]},
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
    egress.EgressOpen: {"session": _SESSION, "destination": "anthropic", "auth": "key", "harness": "claude"},
    egress.EgressOpened: {"path": "/h/run/sessions/run-1/egress.sock", "stand_in": "boxmaker"},
    egress.EgressClose: {"session": _SESSION},
    egress.HarnessUsage: {
        "session": _SESSION, "call": "c1", "destination": "chatgpt", "model": "m", "input_tokens": 10,
        "output_tokens": 2, "cache_read_tokens": None, "cache_write_5m_tokens": None, "cache_write_1h_tokens": None,
        "reasoning_tokens": None,
    },
    egress.Cost: {"since": None, "session": _SESSION},
    egress.CostReply: {
        "rows": [
            {
                "session": _SESSION, "calls": 1, "nusd": 5_000_000, "metered_tokens": 12, "unpriced_models": ["m2"],
                "unpriced_tokens": 3, "plan_tokens": 0, "harness_tokens": 0,
            }
        ],
        "total_nusd": 5_000_000,
        "problem": None,
    },
    egress.Models: {"destination": "openai"},
    egress.ModelsReply: {
        "models": [
            {
                "destination": "openai", "model": "gpt-5-2025", "priced_as": "gpt-5", "input": "1.25", "output": "10",
                "cache_read": "0.125", "cache_write": None,
            }
        ],
        "source": None,
        "problem": None,
    },
    egress.Usage: {"since": _TIME, "session": _SESSION},
    egress.UsageReply: {
        "rows": [
            {
                "destination": "local", "model": "m", "status": 200, "source": "egress", "billing": "metered", "calls": 1,
                "partial": 0, "input_tokens": 10, "output_tokens": None, "cache_read_tokens": 0,
                "cache_write_5m_tokens": None, "cache_write_1h_tokens": None, "reasoning_tokens": None,
            }
        ]
    },
    egress.Destinations: {},
    egress.DestinationsReply: {
        "destinations": [
            {
                "destination": "local", "base_url": "unix:run/egress-model/model.sock", "apis": ["openai-chat"],
                "auths": ["none"], "ceiling": "secret", "credential": None, "ready": True, "tunnels": [],
                "hosted_tools": [],
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
    loop.Channels: {},
    loop.ChannelsReply: {
        "channels": [{"channel": "mattermost", "why": "HTTP 401", "runbook": "mattermost-refused"}],
    },
    loop.SessionLog: {"session": _SESSION, "first": 0},
    loop.SessionLogReply: {"records": [{"kind": "user", "text": "hello"}], "next": None},
    spans.Span: {
        "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331", "parent_id": None,
        "name": "memory.read",
        "span_kind": "server", "service": "memoryd", "version": "0.1.0", "began_ns": 1_790_000_000_000_000_000,
        "ended_ns": 1_790_000_000_000_000_001, "attributes": {"a": "b", "c": 1, "d": True, "e": ["f"]},
        "texts": {"g": "h"}, "class": "private", "error": None,
    },
}  # fmt: skip

SAMPLES: Final[dict[str, msgspec.Struct]] = {
    name: msgspec.convert({"kind": name, **_FIELDS[kind]}, kind) for name, kind in KINDS.items() if kind in _FIELDS
}
