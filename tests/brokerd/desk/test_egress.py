"""May these bytes leave? Under the ceilings of grants.toml, while a session's call runs, and with a policy of its own."""

from pathlib import Path

import anyio
import pytest

from proto.labels import PUBLIC, DataClass, Label
from proto.reasons import REASONS
from tests.brokerd.running import S, label_of, running

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
