"""The owner's commands on brokerd, egressd and loopd: what each asks, prints and exits with; hostile text in every table."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proto.faults import Fault
from proto.labels import DataClass
from proto.messages import broker, egress, loop, wire
from proto.messages.memory import MemoryShow
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u200b\r\nbxctl: all is well\x9b31m"
SHOWN = r"\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}gnp.exe\u{200b}\r\nbxctl: all is well\u{9b}31m"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e]")
SESSION = "chat-20260924-210203-0a1b2c"
APPROVAL = "ap-0123456789abcdef"
TIME = "2026-09-24T21:02:03Z"

GRANT = broker.GrantRow(
    grant="http_fetch",
    sha256="0" * 64,
    tool="http_fetch",
    mode="ask",
    max_taint=DataClass.PRIVATE,
    result_class=DataClass.PRIVATE,
    untrusted=True,
    hosts=[HOSTILE],
    paths=[],
    patterns=[],
    loopback=False,
)
APPROVALS = broker.ApprovalsReply(
    approvals=[
        broker.Approval(
            approval=APPROVAL,
            session=SESSION,
            call="call_1",
            tool="http_fetch",
            text=HOSTILE,
            asked=TIME,
            expires=TIME,
            class_=DataClass.PRIVATE,
            untrusted=True,
        )
    ]
)
MODULE = broker.PolicyModule(name="root.rego", origin="root", text=HOSTILE, problem=HOSTILE)
SUMMARY = loop.SessionSummary(
    session=SESSION,
    began=TIME,
    updated=TIME,
    records=1234,
    first=HOSTILE,
    state="open",
    class_=DataClass.SECRET,
    untrusted=True,
)
LABELLED = broker.SessionRow(
    session=SESSION,
    session_kind="chat",
    principal=HOSTILE,
    destination="local",
    class_=DataClass.PRIVATE,
    untrusted=False,
    open=True,
    opened=TIME,
)
RECORDS: list[dict[str, Any]] = [
    {"kind": "user", "text": HOSTILE, "author": None},
    {"kind": "user", "text": "hello", "author": HOSTILE},
    {"kind": "assistant", "content": HOSTILE, "tool_calls": [{"name": HOSTILE, "arguments": {"a": HOSTILE}}]},
    {"kind": "tool_result", "content": HOSTILE, "class": "private", "untrusted": True},
]
USED = egress.UsageRow(
    destination="openai",
    model=HOSTILE,
    status=200,
    calls=1200,
    input_tokens=34000,
    output_tokens=None,
    cache_read_tokens=0,
)
COST = egress.CostRow(
    session=HOSTILE,
    calls=3,
    nusd=10**9,
    metered_tokens=12,
    unpriced_models=[HOSTILE],
    unpriced_tokens=5,
    plan_tokens=0,
    harness_tokens=0,
)
MODEL = egress.ModelRow(
    destination=HOSTILE,
    model=HOSTILE,
    priced_as=HOSTILE,
    input="1",
    output="2",
    cache_read=None,
    cache_write=None,
)
DESTINATION = egress.DestinationRow(
    destination="openai",
    base_url=HOSTILE,
    apis=["openai-chat"],
    auths=["key"],
    tunnels=[],
    hosted_tools=[],
    ceiling="private",
    credential="OPENAI_API_KEY",
    ready=False,
)
JOURNAL = wire.JournalState(path=HOSTILE, lines=12, head="f" * 64, first_bad=None)

CASES: list[tuple[list[str], str, msgspec.Struct, str]] = [
    (["approvals"], "owner-broker", APPROVALS, f"{APPROVAL}\n"),
    (["grants"], "owner-broker", broker.GrantsReply(grants=[GRANT], problems=[]), "hosts "),
    (["policy", "show"], "owner-broker", broker.PolicyShowReply(modules=[MODULE], problem=None), "root.rego"),
    (["policy", "show", "root.rego"], "owner-broker", broker.PolicyShowReply(modules=[MODULE], problem=None), ""),
    (
        ["policy", "eval", "http_fetch", '{"url": "https://x.org/"}'],
        "owner-broker",
        broker.PolicyEvalReply(verdict="deny", reasons=["taint", HOSTILE], grant=HOSTILE, facts=HOSTILE),
        "deny: taint, ",
    ),
    (
        ["decisions"],
        "owner-broker",
        broker.DecisionsReply(
            decisions=[{"time": TIME, "session": SESSION, "tool": HOSTILE, "arguments": HOSTILE, "class": HOSTILE}]
        ),
        SESSION,
    ),
    (
        ["sessions"],
        "owner-loop",
        loop.SessionsReply(sessions=[SUMMARY], total=1),
        f"{SESSION}  2026-09-24 21:02  secret · untrusted  ",
    ),
    (["sessions", SESSION], "owner-loop", loop.SessionLogReply(records=RECORDS, next=None), "you: "),
    (["sessions", "--labels"], "owner-broker", broker.SessionLabelsReply(sessions=[LABELLED]), SESSION),
    (["usage"], "owner-egress", egress.UsageReply(rows=[USED]), "1,200"),
    (["cost"], "owner-egress", egress.CostReply(rows=[COST], total_nusd=10**9, problem=None), "$1.0000+"),
    (["models"], "owner-egress", egress.ModelsReply(models=[MODEL], source=None, problem=None), "1"),
    (["destinations"], "owner-egress", egress.DestinationsReply(destinations=[DESTINATION], problem=None), "no key"),
]
REQUESTS: dict[str, type[msgspec.Struct]] = {
    "approvals_reply": broker.Approvals,
    "grants_reply": broker.Grants,
    "policy_show_reply": broker.PolicyShow,
    "policy_eval_reply": broker.PolicyEval,
    "decisions_reply": broker.Decisions,
    "sessions_reply": loop.Sessions,
    "session_log_reply": loop.SessionLog,
    "session_labels_reply": broker.SessionLabels,
    "usage_reply": egress.Usage,
    "cost_reply": egress.Cost,
    "models_reply": egress.Models,
    "destinations_reply": egress.Destinations,
}


def _kind(reply: msgspec.Struct) -> str:
    return str(reply.__struct_config__.tag)


@pytest.mark.parametrize(("words", "row", "reply", "shown"), CASES)
def test_no_text_from_elsewhere_reaches_the_terminal_raw(
    bxctl: Bxctl, fakes: Fakes, words: list[str], row: str, reply: msgspec.Struct, shown: str
) -> None:
    fakes.answer(row, REQUESTS[_kind(reply)], reply)
    with fakes.serving():
        result = bxctl(*words)
        for_scripts = bxctl(*words, "--json")
    assert (result.code, result.err) == (0, "")
    assert shown in result.out
    assert r"\u{1b}[2J" in result.out
    assert not CONTROL.search(result.out)
    assert for_scripts.code == 0
    assert for_scripts.out.isascii()
    assert not CONTROL.search(for_scripts.out)
    if isinstance(for_scripts.json, dict):
        assert for_scripts.json == msgspec.to_builtins(reply)
    else:
        assert for_scripts.json == RECORDS


@pytest.mark.parametrize(("words", "row", "reply", "shown"), CASES)
def test_a_row_of_a_table_is_one_line_in_a_pipe(
    bxctl: Bxctl, fakes: Fakes, words: list[str], row: str, reply: msgspec.Struct, shown: str
) -> None:
    fakes.answer(row, REQUESTS[_kind(reply)], reply)
    with fakes.serving():
        out = bxctl(*words).out
    if words in (
        ["grants"],
        ["usage"],
        ["cost"],
        ["models"],
        ["destinations"],
        ["sessions"],
        ["decisions"],
        ["sessions", "--labels"],
    ):
        assert len(out.splitlines()) == 2
        assert SHOWN.split(r"\r", maxsplit=1)[0] in out


@pytest.mark.parametrize(("words", "row", "reply", "shown"), CASES)
def test_without_the_daemon_the_exit_code_is_3(
    bxctl: Bxctl, words: list[str], row: str, reply: msgspec.Struct, shown: str
) -> None:
    result = bxctl(*words)
    assert result.code == 3
    assert result.out == ""
    assert "start the box with: bxctl up (runbook: daemon-unreachable)" in result.err


@pytest.mark.parametrize(
    ("words", "row", "reply", "says"),
    [
        (["approvals"], "owner-broker", broker.ApprovalsReply(approvals=[]), "nothing waits for you\n"),
        (["grants"], "owner-broker", broker.GrantsReply(grants=[], problems=[]), "no grants\n"),
        (["decisions"], "owner-broker", broker.DecisionsReply(decisions=[]), "nothing was decided yet\n"),
        (
            ["sessions"],
            "owner-loop",
            loop.SessionsReply(sessions=[], total=0),
            "no sessions yet; begin one with: bxctl chat\n",
        ),
        (["usage"], "owner-egress", egress.UsageReply(rows=[]), "no model was called\n"),
    ],
)
def test_nothing_is_said_in_words(
    bxctl: Bxctl, fakes: Fakes, words: list[str], row: str, reply: msgspec.Struct, says: str
) -> None:
    fakes.answer(row, REQUESTS[_kind(reply)], reply)
    with fakes.serving():
        assert bxctl(*words).out == says


@pytest.mark.parametrize(("verb", "allow", "said"), [("approve", True, "approved"), ("deny", False, "denied")])
def test_an_approval_is_answered_over_the_admin_socket(
    bxctl: Bxctl, fakes: Fakes, home: Path, verb: str, allow: bool, said: str
) -> None:
    other = home / "b.sock"
    fakes.answer("owner-broker", broker.ApprovalAnswer, wire.Ok(), at=other)
    with fakes.serving():
        result = bxctl(verb, APPROVAL, "--admin-socket", str(other))
    assert (result.code, result.out) == (0, f"{said}: {APPROVAL}\n")
    assert fakes.one(broker.ApprovalAnswer) == broker.ApprovalAnswer(approval=APPROVAL, allow=allow, by="bxctl")


def test_an_approval_that_is_not_there_is_exit_code_1(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer("owner-broker", broker.ApprovalAnswer, Fault("approval-unknown"))
    with fakes.serving():
        result = bxctl("approve", APPROVAL)
    assert (result.code, result.err) == (1, "bxctl: no approval of that id waits for an answer\n")


def test_problems_of_grants_are_exit_code_4(bxctl: Bxctl, fakes: Fakes) -> None:
    problem = f"memory.toml: the policy of recall and memory is built in; remove this grant {HOSTILE}"
    fakes.answer("owner-broker", broker.Grants, broker.GrantsReply(grants=[], problems=[problem]))
    with fakes.serving():
        result = bxctl("grants")
    assert result.code == 4
    assert "the policy of recall and memory is built in; remove this grant" in result.err
    assert "(runbook: grants-invalid)" in result.err
    assert not CONTROL.search(result.err.replace("\n", ""))


def test_a_policy_that_denies_everything_is_exit_code_4(bxctl: Bxctl, fakes: Fakes) -> None:
    reply = broker.PolicyShowReply(modules=[], problem="root.rego: line 3: no")
    fakes.answer("owner-broker", broker.PolicyShow, reply)
    with fakes.serving():
        result = bxctl("policy", "show")
    assert (result.code, result.err) == (4, "bxctl: root.rego: line 3: no (runbook: policy-invalid)\n")


def test_a_policy_is_asked_about_a_made_up_call(bxctl: Bxctl, fakes: Fakes) -> None:
    reply = broker.PolicyEvalReply(verdict="ask", reasons=["asks"], grant="http_fetch", facts="{}")
    fakes.answer("owner-broker", broker.PolicyEval, reply)
    with fakes.serving():
        arguments = '{"url": "https://example.org/$HOME"}'
        result = bxctl("policy", "eval", "http_fetch", arguments, "--class", "secret", "--untrusted")
    assert result.out == "ask: asks\ngrant: http_fetch\nfacts:\n{}\n"
    assert fakes.one(broker.PolicyEval) == broker.PolicyEval(
        tool="http_fetch",
        arguments={"url": "https://example.org/$HOME"},
        class_=DataClass.SECRET,
        untrusted=True,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["policy", "eval", "recall", "[1]"],
        ["policy", "eval", "recall", "not json"],
        ["policy", "eval", "recall", "{}", "--class", "topmost"],
        ["usage", "--since", "junk"],
        ["approve"],
        ["sessions", "-n", "0"],
        ["sessions", "\udcff"],
        ["memory", "undo", "\udcff"],
    ],
)
def test_a_wrong_line_is_exit_code_2(bxctl: Bxctl, words: list[str]) -> None:
    assert bxctl(*words).code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["sessions", "fo\x1bo"],
        ["reopen", "fo\x1bo"],
        ["deny", "fo\x1bo"],
        ["approve", "fo\x1bo"],
        ["chat", "--session", "fo\x1bo", "hello"],
        ["decisions", "--session", "fo\x1bo"],
        ["usage", "--session", "fo\x1bo"],
    ],
)
def test_what_is_no_id_is_said_so_in_words(bxctl: Bxctl, words: list[str]) -> None:
    result = bxctl(*words)
    assert result.code == 2
    assert "fo\\u{1b}o is no id of " in " ".join(result.err.split())
    assert "[a-z0-9" not in result.err


def test_usage_takes_a_span_a_day_or_a_time(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer("owner-egress", egress.Usage, egress.UsageReply(rows=[]))
    with fakes.serving():
        for since in ("2026-09-24", "2026-09-24T10:00:00+02:00", "36h", "today"):
            assert bxctl("usage", "--since", since).code == 0
    asked = [request.since for request in fakes.asked]
    assert asked[:2] == ["2026-09-24T00:00:00Z", "2026-09-24T08:00:00Z"]
    assert re.fullmatch(r"[0-9-]{10}T[0-9:]{8}Z", asked[2])
    assert asked[3].endswith("T00:00:00Z")


def test_a_log_is_read_to_its_end(bxctl: Bxctl, fakes: Fakes) -> None:
    async def pieces(request: loop.SessionLog, connection: object) -> loop.SessionLogReply:
        record = {"kind": "user", "text": f"number {request.first}", "author": None}
        return loop.SessionLogReply(records=[record], next=request.first + 1 if request.first < 2 else None)

    fakes.answer("owner-loop", loop.SessionLog, pieces)
    with fakes.serving():
        assert bxctl("sessions", SESSION).out == "you: number 0\nyou: number 1\nyou: number 2\n"


def test_a_lost_session_is_reopened(bxctl: Bxctl, fakes: Fakes) -> None:
    state = broker.SessionState(session=SESSION, class_=DataClass.SECRET, untrusted=True)
    fakes.answer("owner-broker", broker.SessionReopen, state)
    with fakes.serving():
        assert bxctl("reopen", SESSION).out == f"reopened: {SESSION} · secret · untrusted\n"


def _verifying(fakes: Fakes, *, bad: int | None) -> None:
    good = wire.JournalState(path="edits/2026-09.jsonl", lines=12, head="f" * 64, first_bad=None)
    other = wire.JournalState(path="audit/decisions.jsonl", lines=30, head="e" * 64, first_bad=bad)
    fakes.answer("owner-memory", wire.Verify, wire.VerifyReply(journals=[good]))
    fakes.answer("owner-broker", wire.Verify, wire.VerifyReply(journals=[other]))


def test_verify_shows_the_journals_of_both_daemons(bxctl: Bxctl, fakes: Fakes) -> None:
    _verifying(fakes, bad=None)
    with fakes.serving():
        result = bxctl("verify")
    assert result.code == 0
    assert re.search(r"memoryd +edits/2026-09.jsonl +12 +holds +f{64}", result.out)
    assert re.search(r"brokerd +audit/decisions.jsonl +30 +holds +e{64}", result.out)


@pytest.mark.parametrize("words", [["verify"], ["verify", "--json"]])
def test_verify_exits_4_on_a_broken_chain(bxctl: Bxctl, fakes: Fakes, words: list[str]) -> None:
    _verifying(fakes, bad=7)
    with fakes.serving():
        result = bxctl(*words)
    assert result.code == 4
    if "--json" in words:
        assert result.json["brokerd"]["journals"][0]["first_bad"] == 7
    else:
        assert "audit/decisions.jsonl: the chain is broken at line 7 (runbook: journal-damaged)" in result.err


def test_an_answer_of_the_wrong_kind_is_a_fault_and_no_traceback(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer("owner-memory", MemoryShow, wire.Ok())
    with fakes.serving():
        result = bxctl("memory", "show")
    assert result.code == 1
    assert result.err.startswith("bxctl: ")
    assert "Traceback" not in result.err
