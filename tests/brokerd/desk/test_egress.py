"""May these bytes leave? Under the ceilings of grants.toml, while a session's call runs, and with a policy of its own."""

import random
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from brokerd.decide import EgressDecider
from brokerd.desk import egress
from brokerd.policy.process import Worker
from proto.faults import Fault
from proto.labels import PUBLIC, DataClass, Label
from proto.messages.broker import EgressAsk, EgressDecision, Spending
from proto.messages.wire import Error
from proto.reasons import REASONS
from proto.role.journal import JsonLines
from tests.brokerd.running import Brokerd, S, label_of, running

pytestmark = pytest.mark.anyio

RULES = """
[destinations.local]
base_url = "unix:run/egress-model/model.sock"
ceiling = "secret"

[destinations.provider]
base_url = "https://api.example.org"

[destinations.open]
base_url = "https://open.example.org"
ceiling = "public"
"""


def _ask(destination: str, session: str, number: int) -> EgressAsk:
    return EgressAsk(session=session, call=f"m{number}", destination=destination, method="POST", path="/v1")


@pytest.mark.parametrize(
    ("class_", "allowed"),
    [("public", {"local", "provider", "open"}), ("private", {"local", "provider"}), ("secret", {"local"})],
)
@pytest.mark.parametrize("untrusted", [False, True])
async def test_a_label_goes_up_to_the_ceiling(home: Path, class_: str, allowed: set[str], untrusted: bool) -> None:
    async with running(home) as brokerd:
        brokerd.write("grants.toml", RULES)
        label = Label(class_=DataClass(class_), untrusted=untrusted)
        await brokerd.open(label=label)
        for destination in ("local", "provider", "open"):
            decision = await brokerd.leave(destination)
            assert decision.allow is (destination in allowed)
            reason = "within-ceiling" if decision.allow else "ceiling"
            assert (decision.reasons, decision.message) == ([reason], REASONS[reason])
            assert label_of(decision) == label
        lines = brokerd.audit("decision")
        assert [line["destination"] for line in lines] == ["local", "provider", "open"]
        assert all(line["session"] == S and line["class"] == class_ and line["cites"] == [] for line in lines)


async def test_questions_that_come_together_have_each_their_own_answer_and_one_wait_for_the_disk(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = 0
    real = JsonLines.sync

    def counted(log: JsonLines) -> None:
        nonlocal syncs
        syncs += 1
        real(log)

    asks = [_ask("local", S, 1), _ask("open", S, 2), _ask("local", "chat-unknown", 3), _ask("open", "chat-other", 4)]
    async with running(home) as brokerd:
        brokerd.write("grants.toml", RULES)
        await brokerd.open(label=Label(class_=DataClass.SECRET, untrusted=False))
        await brokerd.open("chat-other", label=PUBLIC)
        monkeypatch.setattr(JsonLines, "sync", counted)
        answers = await brokerd.leave_all(*asks)
        assert syncs == 1
        decisions = [answer for answer in answers if isinstance(answer, EgressDecision)]
        assert [decision.allow for decision in decisions] == [True, False, False, True]
        assert [decision.reasons[0] for decision in decisions[1:3]] == ["ceiling", "session-not-open"]
        lines = brokerd.audit("decision")
        assert [(line["session"], line["call"]) for line in lines] == [(ask.session, ask.call) for ask in asks]


async def test_a_question_that_fails_takes_no_other_along(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = EgressDecider.at_once

    def at_once(decider: EgressDecider, ask: EgressAsk, *rest: Any) -> Any:
        if ask.call == "m2":
            raise ZeroDivisionError
        if ask.call == "m3":
            raise Fault("policy-invalid", "what is wrong")
        return real(decider, ask, *rest)

    monkeypatch.setattr(EgressDecider, "at_once", at_once)
    async with running(home) as brokerd:
        brokerd.write("grants.toml", RULES)
        await brokerd.open(label=PUBLIC)
        answers = await brokerd.leave_all(*(_ask("local", S, number) for number in range(1, 5)))
        assert [answer.code if isinstance(answer, Error) else answer.allow for answer in answers] == [
            True, "internal", "policy-invalid", True,
        ]  # fmt: skip
        assert [line["call"] for line in brokerd.audit("decision")] == ["m1", "m4"]


def _under_its_label(lines: list[dict[str, Any]], session: str = S) -> bool:
    """Whether each decision to allow says the label that the session has in the log by then."""
    label: tuple[str, bool] | None = None
    for line in lines:
        if line["session"] == session and line["kind"] == "session":
            label = line["class"], line["untrusted"]
        elif line["session"] == session and line["verdict"] == "allow" and (line["class"], line["untrusted"]) != label:
            return False
    return True


async def test_what_a_frame_decides_without_waiting_is_one_write(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    real = JsonLines.write

    def counted(log: JsonLines, data: bytes, *, sync: bool = True) -> None:
        writes.append(data.count(b"\n"))
        real(log, data, sync=sync)

    async with running(home) as brokerd:
        brokerd.write("grants.toml", SPEND)
        await brokerd.open()
        hosted = msgspec.structs.replace(_ask("provider", S, 9), hosted_tools=["web_search"])
        await brokerd.open("chat-before")
        for ask in (_ask("provider", "chat-before", 0), msgspec.structs.replace(hosted, session="chat-before")):
            await brokerd.leave_all(ask)  # from now on the policy's answer is kept
        monkeypatch.setattr(JsonLines, "write", counted)
        answers = await brokerd.leave_all(
            *(_ask("provider", S, number) for number in range(1, 9)),
            hosted,
            *(_ask("provider", S, number) for number in range(10, 13)),
        )
        assert all(isinstance(answer, EgressDecision) and answer.allow for answer in answers)
        # The label rises between the two: what was decided under the old one is written down before.
        assert writes == [8, 1, 4]
        lines = [line for line in brokerd.audit() if line["session"] == S]
        assert [line["kind"] for line in lines] == ["session", *["decision"] * 8, "session", *["decision"] * 4]
        assert _under_its_label(lines)
        assert [line["untrusted"] for line in lines] == [False] * 9 + [True] * 5


async def test_a_label_that_rises_while_a_frame_waits_is_that_of_what_is_decided_after_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Worker.ask
    asked, go = anyio.Event(), anyio.Event()

    async def ask(worker: Worker, *question: Any) -> Any:
        answer = await real(worker, *question)
        asked.set()
        await go.wait()
        return answer

    def tunnel(number: int) -> EgressAsk:
        return msgspec.structs.replace(_ask("provider", S, number), what="tunnel", path="a.example:443")

    async with running(home) as brokerd:
        brokerd.write("grants.toml", SPEND)
        await brokerd.open(label=PUBLIC)
        assert (await brokerd.leave("provider")).allow
        monkeypatch.setattr(Worker, "ask", ask)
        answers: list[EgressDecision | Error] = []

        async def leave() -> None:
            nonlocal answers
            frame = (_ask("provider", S, 1), tunnel(2), _ask("provider", S, 3), _ask("local", S, 4))
            answers = await brokerd.leave_all(*frame)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            await asked.wait()
            assert [line["call"] for line in brokerd.audit("decision")] == ["m1", "m1"]
            await brokerd.raise_label(Label(class_=DataClass.SECRET, untrusted=True))
            go.set()
        decisions = [answer for answer in answers if isinstance(answer, EgressDecision)]
        assert [_denied(decision) for decision in decisions] == [[], ["ceiling"], ["ceiling"], []]
        assert [decision.class_.value for decision in decisions] == ["public", "secret", "secret", "secret"]
        assert _under_its_label(brokerd.audit())
        assert [line["kind"] for line in brokerd.audit()] == [
            "session", "decision", "decision", "session", "decision", "decision", "decision",
        ]  # fmt: skip


def _some_ask(chance: random.Random, session: str, number: int) -> EgressAsk:
    """A question of one of the kinds that are decided each in their own way."""
    usual = _ask(chance.choice(["local", "provider", "open", "nowhere"]), session, number)
    parts: list[dict[str, Any]] = [
        {},
        {"spending": spending(session_tokens=chance.choice([999, 1001]))},
        {"what": "tunnel", "path": chance.choice(["a.example:443", "b.example:443"])},
        {"hosted_tools": ["web_search"]},
        {"what": "read"},
    ]
    # A model of its own that the root's module reads: the policy has to be asked.
    new = {"model": f"m{number}"} if chance.random() < 0.2 else {}
    return msgspec.structs.replace(usual, **chance.choice(parts), **new)


async def test_a_frame_is_answered_and_logged_as_its_questions_one_by_one(home: Path) -> None:
    chance = random.Random(7)
    rule = 'deny contains "policy-denies" if input.model == "m3"\n'

    async def asked(brokerd: Brokerd, session: str, frames: list[list[EgressAsk]]) -> tuple[Any, Any]:
        answers = [
            answer
            for frame in frames
            for answer in await brokerd.leave_all(*(msgspec.structs.replace(ask, session=session) for ask in frame))
        ]
        own = [line for line in brokerd.audit() if line["session"] == session]
        assert _under_its_label(own, session)
        apart = {"session", "time", "prev", "salt", "hash"}
        return answers, [{key: value for key, value in line.items() if key not in apart} for line in own]

    async with running(home) as brokerd:
        brokerd.write("grants.toml", SPEND + LIMITS)
        brokerd.write("policy/mine.rego", f"package boxmaker.root\n\nimport rego.v1\n\n{rule}")
        for number in range(25):
            frame = [_some_ask(chance, S, one) for one in range(chance.randint(1, 12))]
            label = Label(class_=chance.choice(list(DataClass)), untrusted=False)
            sessions = (f"chat-together{number}", f"chat-apart{number}")
            for session in sessions:
                await brokerd.open(session, label)
            together = await asked(brokerd, sessions[0], [frame])
            assert together == await asked(brokerd, sessions[1], [[ask] for ask in frame])


async def test_what_cannot_be_written_down_is_not_allowed_and_the_next_frame_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(log: JsonLines, data: bytes, *, sync: bool = True) -> None:
        raise OSError(28, "No space left on device")

    async with running(home) as brokerd:
        brokerd.write("grants.toml", RULES)
        await brokerd.open()
        assert (await brokerd.leave("local")).allow
        with monkeypatch.context() as patched:
            patched.setattr(JsonLines, "write", full)
            answers = await brokerd.leave_all(*(_ask("local", S, number) for number in range(2, 5)))
        assert [answer.code for answer in answers if isinstance(answer, Error)] == ["internal"] * 3
        assert (await brokerd.leave("local")).allow
        assert [line["call"] for line in brokerd.audit("decision")] == ["m1", "m1"]


HANGING = 'deny contains "policy-denies" if regex.match("(a+)+$", input.model)\n'


async def test_a_policy_that_hangs_on_some_questions_of_a_frame_answers_the_others(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(number: int, model: str) -> EgressAsk:
        return msgspec.structs.replace(_ask("local", S, number), model=model)

    def asks(most: int) -> list[EgressAsk]:
        return [*(named(number, f"{'a' * 40}!{number}") for number in range(most)), named(most, "known")]

    async with running(home, config="[policy]\ntimeout_s = 0.5\n") as brokerd:
        brokerd.write("grants.toml", RULES)
        brokerd.write("policy/mine.rego", f"package boxmaker.root\n\nimport rego.v1\n\n{HANGING}")
        await brokerd.open()
        assert (await brokerd.leave("local", model="known")).allow
        told = [answer for answer in await brokerd.leave_all(*asks(1)) if isinstance(answer, EgressDecision)]
        assert [_denied(decision) for decision in told] == [["policy-invalid"], []]
        monkeypatch.setattr(egress, "_DECIDING_S", 1.2)
        began_s = anyio.current_time()
        told = [answer for answer in await brokerd.leave_all(*asks(8)) if isinstance(answer, EgressDecision)]
        assert anyio.current_time() - began_s < 3
        assert [_denied(decision) for decision in told] == [["policy-invalid"]] * 8 + [[]]
        assert [line["call"] for line in brokerd.audit("decision")[-9:]] == [f"m{number}" for number in range(9)]
        assert (await brokerd.leave("local", model="another")).allow


async def test_what_is_not_known_does_not_leave(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.write("grants.toml", RULES)
        decision = await brokerd.leave("local", "chat-unknown")
        assert (decision.allow, decision.reasons) == (False, ["session-not-open"])
        assert label_of(decision) == Label(class_=DataClass.SECRET, untrusted=True)
        await brokerd.open(label=PUBLIC)
        assert (await brokerd.leave("nowhere")).reasons == ["destination"]
        brokerd.write("grants.toml", RULES + "colour = 1\n")
        decision = await brokerd.leave("local")
        assert (decision.allow, decision.reasons, decision.message) == (
            False,
            ["rules-invalid"],
            REASONS["rules-invalid"],
        )
        brokerd.write("grants.toml", RULES)
        assert (await brokerd.leave("local")).allow


async def test_invalid_rules_close_what_they_decide_and_no_more(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.write("grants.toml", "x")
        await brokerd.open()
        assert (await brokerd.tool("recall", {"query": "x"})).ok


async def test_it_waits_for_no_call_and_sees_the_label_at_once(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.write("grants.toml", RULES)
        brokerd.memoryd.gate = anyio.Event()
        await brokerd.open()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(brokerd.tool, "recall", {"query": "x"})
            await brokerd.memoryd.began.wait()
            assert (await brokerd.leave("provider")).allow
            await brokerd.raise_label(Label(class_=DataClass.SECRET, untrusted=False))
            assert (await brokerd.leave("provider")).reasons == ["ceiling"]
            brokerd.memoryd.gate.set()


async def test_a_policy_that_hangs_on_tool_calls_does_not_hold_it_up(home: Path) -> None:
    rule = 'deny contains "policy-denies" if {\n\tinput.decision == "tool"\n\tregex.match("(a+)+$", input.arguments.query)\n}\n'
    async with running(home, config="[policy]\ntimeout_s = 2.0\n") as brokerd:
        brokerd.write("grants.toml", RULES)
        brokerd.write("policy/mine.rego", f"package boxmaker.root\n\nimport rego.v1\n\n{rule}")
        await brokerd.open()
        assert (await brokerd.leave("provider")).allow
        async with anyio.create_task_group() as tasks:
            ended = anyio.Event()

            async def hang() -> None:
                assert (await brokerd.tool("recall", {"query": "a" * 40 + "!"})).text == REASONS["policy-invalid"]
                ended.set()

            tasks.start_soon(hang)
            await anyio.sleep(0.1)
            assert (await brokerd.leave("provider")).allow
            assert not ended.is_set()


async def test_a_roots_denial_holds_here_too_and_its_question_does_not(home: Path) -> None:
    root = 'package boxmaker.root\n\nimport rego.v1\n\nask := true\n\ndeny contains "policy-denies" if input.method == "POST"\n'
    async with running(home) as brokerd:
        brokerd.write("grants.toml", RULES)
        brokerd.write("policy/mine.rego", root)
        await brokerd.open()
        assert (await brokerd.leave("provider")).reasons == ["policy-denies"]
        brokerd.write("policy/mine.rego", root.replace("POST", "PUT"))
        assert (await brokerd.leave("provider")).allow


SPEND = RULES.replace(
    'base_url = "https://api.example.org"',
    'base_url = "https://api.example.org"\ntunnels = ["a.example", "b.example:8443"]\nhosted_tools = ["web_search"]',
)
LIMITS = "\n[spend.provider]\nsession_tokens = 1000\nday_tokens = 5000\nsession_usd = 0.25\nday_usd = 1.0\n"


def spending(**parts: Any) -> Spending:
    told: dict[str, Any] = {"session_tokens": 0, "day_tokens": 0, "session_nusd": 0, "day_nusd": 0, "metered": True}
    return Spending(**{**told, **parts})


SPENT: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"session_tokens": 1000, "day_tokens": 5000, "session_nusd": 250_000_000, "day_nusd": 10**9}, []),
    ({"session_tokens": 1001}, ["spend"]),
    ({"day_tokens": 5001}, ["spend"]),
    ({"session_nusd": 250_000_001}, ["spend"]),
    ({"day_nusd": 10**9 + 1}, ["spend"]),
    ({"session_nusd": None, "day_nusd": None}, ["unpriced"]),
    ({"session_nusd": None, "day_nusd": None, "session_tokens": 1001}, ["spend", "unpriced"]),
    ({"session_nusd": None, "day_nusd": None, "metered": False}, []),
    ({"session_nusd": 1 << 60, "metered": False}, []),
    ({"session_tokens": 1001, "metered": False}, ["spend"]),
]


def _denied(decision: EgressDecision) -> list[str]:
    return [] if decision.allow else decision.reasons


async def test_a_call_that_could_pass_a_limit_does_not_leave(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.write("grants.toml", SPEND + LIMITS)
        await brokerd.open()
        for parts, reasons in SPENT:
            decision = await brokerd.leave("provider", model="m", spending=spending(**parts))
            assert _denied(decision) == reasons, parts
            if reasons:
                assert decision.message == REASONS[max(reasons)]
        assert _denied(await brokerd.leave("local", spending=spending(session_tokens=1 << 61))) == []
        assert _denied(await brokerd.leave("provider")) == ["spend", "unpriced"]
        assert _denied(await brokerd.leave("provider", what="read", method="GET", path="/v1/models")) == []
        line = brokerd.audit("decision")[2]
        assert (line["what"], line["model"], line["spending"]["session_tokens"]) == ("call", "m", 1001)
        brokerd.write("grants.toml", SPEND)
        assert _denied(await brokerd.leave("provider", spending=spending(session_tokens=1 << 61))) == []


async def test_a_policy_of_the_roots_own_sees_what_is_spent(home: Path) -> None:
    rule = 'deny contains "policy-denies" if {\n\tinput.model == "dear"\n\tinput.spending.day_tokens > 10\n}\n'
    async with running(home) as brokerd:
        brokerd.write("grants.toml", SPEND)
        brokerd.write("policy/mine.rego", f"package boxmaker.root\n\nimport rego.v1\n\n{rule}")
        await brokerd.open()
        for model, tokens, reasons in (("dear", 11, ["policy-denies"]), ("dear", 10, []), ("cheap", 11, [])):
            decision = await brokerd.leave("provider", model=model, spending=spending(day_tokens=tokens))
            assert _denied(decision) == reasons


async def test_a_tunnel_leads_where_the_destination_names_it(home: Path) -> None:
    async def tunnel(brokerd: Brokerd, path: str) -> list[str]:
        return _denied(await brokerd.leave("provider", method="CONNECT", path=path, what="tunnel"))

    async with running(home) as brokerd:
        brokerd.write("grants.toml", SPEND + LIMITS)
        await brokerd.open()
        assert await tunnel(brokerd, "a.example:443") == []
        assert await tunnel(brokerd, "b.example:8443") == []
        for path in (
            "b.example:443",
            "a.example:80",
            "a.example",
            "sub.a.example:443",
            "a.example:0443",
            "A.example:443",
        ):
            assert await tunnel(brokerd, path) == ["tunnel-host"]
        assert brokerd.audit("decision")[2]["host"] == "b.example:443"
        brokerd.write("grants.toml", SPEND + "[spend.provider]\nday_tokens = 0\n")
        assert await tunnel(brokerd, "a.example:443") == ["spend"]


async def test_a_tool_of_the_provider_makes_the_session_untrusted_before_it_runs(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.write("grants.toml", SPEND)
        before = await brokerd.open()
        for tools in (["code_execution"], ["web_search", "mcp"]):
            refused = await brokerd.leave("provider", hosted_tools=tools)
            assert _denied(refused) == ["hosted-tool"]
            assert label_of(refused) == brokerd.stored_label() == before
        allowed = await brokerd.leave("provider", hosted_tools=["web_search"])
        assert allowed.allow
        assert label_of(allowed) == brokerd.stored_label() == Label(class_=DataClass.PRIVATE, untrusted=True)
        (line,) = [line for line in brokerd.audit("session") if line["event"] == "label"]
        assert (line["cause"], line["untrusted"]) == ("hosted-tool", True)
        assert brokerd.audit("decision")[-1]["hosted_tools"] == ["web_search"]
        assert (await brokerd.leave("provider", hosted_tools=["web_search"])).allow
        assert len([line for line in brokerd.audit("session") if line["event"] == "label"]) == 1
        assert brokerd.egressd.notices == []


async def test_a_policy_that_keeps_untrusted_sessions_in_keeps_tools_of_the_provider_in(home: Path) -> None:
    rule = 'deny contains "policy-denies" if input.session.untrusted\n'
    async with running(home) as brokerd:
        brokerd.write("grants.toml", SPEND)
        brokerd.write("policy/mine.rego", f"package boxmaker.root\n\nimport rego.v1\n\n{rule}")
        before = await brokerd.open()
        assert _denied(await brokerd.leave("provider", hosted_tools=["web_search"])) == ["policy-denies"]
        assert brokerd.stored_label() == before
        assert (await brokerd.leave("provider")).allow


async def test_the_connection_to_mattermost_reads_without_a_session_and_posts_with_one(home: Path) -> None:
    owner, channel = "o" * 26, "c" * 26
    async with running(home) as brokerd:
        brokerd.write(
            "grants.toml",
            '[destinations.mattermost]\nbase_url = "https://chat.example"\napi = "mattermost"\n'
            f'[mattermost]\nowner = "{owner}"\n[mattermost.channels.{channel}]\nceiling = "public"\n',
        )
        await brokerd.open(label=Label(class_=DataClass.PRIVATE, untrusted=False))
        read = await brokerd.leave("mattermost", session=None, what="read")
        assert (read.allow, label_of(read), read.domain) == (True, PUBLIC, None)
        nobody = await brokerd.leave("mattermost", session=None, what="post", channel=channel)
        assert _denied(nobody) == ["session-not-open"]
        assert _denied(await brokerd.leave("mattermost", what="post", channel=channel)) == ["channel-ceiling"]
        assert (await brokerd.leave("mattermost", what="post", channel="d" * 26)).allow
        lines = brokerd.audit("decision")
        assert [line["session"] for line in lines] == [None, None, S, S]
        assert (lines[-1]["channel"], lines[-1]["direct"]) == ("d" * 26, False)
