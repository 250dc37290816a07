"""The owner's socket: grants, policy, sessions, the audit log."""

import json
from pathlib import Path
from typing import Any

import pytest

from proto import frame
from proto.labels import DataClass
from proto.messages.broker import (
    Decisions,
    DecisionsReply,
    Grants,
    GrantsReply,
    PolicyEval,
    PolicyEvalReply,
    PolicyShow,
    PolicyShowReply,
    SessionLabels,
    SessionLabelsReply,
)
from proto.messages.wire import Verify, VerifyReply
from tests.brokerd.running import Brokerd, S, running

pytestmark = pytest.mark.anyio


async def _evaluated(brokerd: Brokerd, tool: str, arguments: dict[str, Any], **more: Any) -> PolicyEvalReply:
    fields = {"class_": DataClass.PRIVATE, "untrusted": False, **more}
    reply: PolicyEvalReply = await brokerd.owner(PolicyEval(tool=tool, arguments=arguments, **fields), PolicyEvalReply)
    return reply


async def test_the_grants_with_the_built_in_ones_and_the_problems(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"], loopback=True)
        brokerd.write("grants/bad.toml", 'tool = "recall"\nmode = "deny"\n')
        reply: GrantsReply = await brokerd.owner(Grants(), GrantsReply)
        assert [row.grant for row in reply.grants] == ["builtin-recall", "builtin-memory", "web"]
        assert (reply.grants[2].hosts, reply.grants[2].loopback) == (["example.org"], True)
        assert reply.problems == [
            "grants/bad.toml, line 1: tool: the policy of recall and memory is built in; remove this grant"
        ]


async def test_the_policy_is_shown(home: Path) -> None:
    async with running(home) as brokerd:
        reply: PolicyShowReply = await brokerd.owner(PolicyShow(), PolicyShowReply)
        assert [module.name for module in reply.modules] == ["built-in/tool.rego", "built-in/egress.rego"]


async def test_a_made_up_decision_runs_nothing_and_is_not_written_down(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"])
        url = {"url": "https://example.org/"}
        found = await _evaluated(brokerd, "http_fetch", url)
        assert (found.verdict, found.reasons, found.grant) == ("allow", ["granted"], "web")
        assert json.loads(found.facts)["facts"]["host_exact"] is True
        found = await _evaluated(brokerd, "http_fetch", url, class_=DataClass.SECRET)
        assert (found.verdict, found.reasons) == ("deny", ["taint"])
        found = await _evaluated(brokerd, "http_fetch", {"url": "https://other.org/"}, untrusted=True)
        assert (found.verdict, found.reasons) == ("deny", ["host"])
        assert (await _evaluated(brokerd, "recall", {"query": "x"}, session=S)).reasons == ["session-not-open"]
        await brokerd.open()
        assert (await _evaluated(brokerd, "recall", {"query": "x"}, session=S)).verdict == "allow"
        assert brokerd.audit("decision") == []
        assert brokerd.egressd.fetches == []
        assert brokerd.memoryd.calls == []


async def test_the_sessions_the_newest_first(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        await brokerd.open("chat-2")
        reply: SessionLabelsReply = await brokerd.owner(SessionLabels(), SessionLabelsReply)
        assert {row.session for row in reply.sessions} == {S, "chat-2"}
        assert all(row.open and row.principal == "owner" for row in reply.sessions)


async def test_the_last_decisions_of_all_or_of_one_session(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        await brokerd.open("chat-2")
        for number in range(4):
            await brokerd.tool("recall", {"query": f"q{number}"}, call_id=f"c{number}")
        reply: DecisionsReply = await brokerd.owner(Decisions(last=3), DecisionsReply)
        assert reply.decisions == brokerd.audit()[-3:]
        assert len((await brokerd.owner(Decisions(), DecisionsReply)).decisions) == len(brokerd.audit()) == 10
        of_two = (await brokerd.owner(Decisions(session="chat-2"), DecisionsReply)).decisions
        assert [line["event"] for line in of_two] == ["open"]
        assert (await brokerd.owner(Decisions(last=0), DecisionsReply)).decisions == []


async def test_a_log_of_large_arguments_still_fits_a_frame(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        text = "é" * 300_000
        for _ in range(5):
            assert (await brokerd.tool("memory", {"action": "add", "file": "memory", "text": text})).ok
        reply: DecisionsReply = await brokerd.owner(Decisions(last=10_000), DecisionsReply)
        assert len(frame.pack(reply)) < frame.MAX_FRAME
        decision = brokerd.audit("decision")[0]
        assert decision["arguments_chars"] > len(text)
        assert len(decision["arguments"]) == 20_000


async def test_verify_finds_the_chain_whole_and_a_changed_line(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        await brokerd.tool("recall", {"query": "x"})
        reply: VerifyReply = await brokerd.owner(Verify(), VerifyReply)
        (state,) = reply.journals
        assert (state.path, state.lines, state.first_bad) == ("audit/decisions.jsonl", 3, None)
        path = home / "audit/decisions.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"verdict":"allow"', b'"verdict":"denied"'))
        assert (await brokerd.owner(Verify(), VerifyReply)).journals[0].first_bad == 2


async def test_a_break_found_at_start_is_marked_and_does_not_stop_it(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        await brokerd.tool("recall", {"query": "x"})
    path = home / "audit/decisions.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"verdict":"allow"', b'"verdict":"denied"'))
    async with running(home) as brokerd:
        assert brokerd.audit()[-1]["kind"] == "chain_break"
        assert (await brokerd.tool("recall", {"query": "x"})).ok
        assert (await brokerd.owner(Verify(), VerifyReply)).journals[0].first_bad == 2


async def test_a_torn_last_line_is_cut_off_and_nothing_before_it(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
    path = home / "audit/decisions.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"decision","time":')
    async with running(home) as brokerd:
        assert path.read_bytes() == whole
        assert (await brokerd.owner(Verify(), VerifyReply)).journals[0].first_bad is None
