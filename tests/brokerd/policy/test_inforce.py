"""The policy in force: what loads, what stays, and what a policy that misbehaves can do, which is to deny."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from brokerd import app, facts
from brokerd.grants.shelf import GrantSet
from brokerd.policy.inforce import NO_POLICY, Policy
from brokerd.policy.process import LoadRefused, Worker, WorkerLost
from brokerd.policy.verdict import INVALID
from proto.role.clock import now

pytestmark = pytest.mark.anyio

HEAD = "package boxmaker.root\n\nimport rego.v1\n\n"
TRIALS = app.trial_terms()
ALLOWED = facts.of_tool(
    facts.Question(session=None, label=facts.strictest(), tool="recall", arguments={"query": "?"}),
    GrantSet(),
    now(),
).term
ALLOWED["session"] |= {"open": True, "class_rank": 1, "untrusted": False}


@asynccontextmanager
async def _policy(home: Path, timeout_s: float = 5.0) -> AsyncIterator[Policy]:
    policy = Policy(home, timeout_s, TRIALS)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(policy.run)
        yield policy
        tasks.cancel_scope.cancel()


async def _ask(policy: Policy, **more: object) -> tuple[str, tuple[str, ...]]:
    answer = await policy.ask(facts.TOOL, {**ALLOWED, **more})
    return answer.verdict.verdict, answer.verdict.reasons


def _pid(policy: Policy) -> int:
    assert policy._worker is not None
    return policy._worker.pid


def _write(home: Path, body: str, name: str = "mine.rego") -> None:
    (home / "policy").mkdir(exist_ok=True)
    (home / "policy" / name).write_text(body)


async def test_without_a_root_the_built_in_policy_is_in_force(home: Path) -> None:
    async with _policy(home) as policy:
        assert await _ask(policy) == ("allow", ("built-in",))
        shown = await policy.show()
        assert [(module.name, module.origin, module.problem) for module in shown.modules] == [
            ("built-in/tool.rego", "built-in", None),
            ("built-in/egress.rego", "built-in", None),
        ]
        assert shown.problem is None
        assert "data.rules" in shown.modules[0].text


async def test_a_root_can_deny_and_ask(home: Path) -> None:
    _write(home, HEAD + 'deny contains "policy-denies" if input.tool == "memory"\nask if input.now.weekday > 0\n')
    async with _policy(home) as policy:
        assert await _ask(policy, tool="memory") == ("deny", ("policy-denies",))
        assert await _ask(policy) == ("ask", ("policy-asks",))
        assert await _ask(policy, approved=True) == ("allow", ("approved", "built-in"))


@pytest.mark.parametrize(
    "body",
    [
        "package boxmaker.root\n\ndeny contains if {\n",
        HEAD + 'deny contains "host" if net.cidr_contains("10.0.0.0/8", input.host)\n',
        "package my.own\n\nimport rego.v1\n\ndeny := true\n",
        HEAD + 'denies contains "host" if input.tool\n',
        "no package\n",
        "",
        "package boxmaker.tool\n\nimport rego.v1\n\nallow := true\n",
        'package boxmaker.tool\n\nimport rego.v1\n\ndecision := {"allow": "yes", "ask": false, "reasons": {"granted"}}\n',
        'package boxmaker.tool\n\nimport rego.v1\n\ndecision := {"allow": true, "ask": false, "reasons": {"grnted"}}\n',
        HEAD + "deny := 1\ndeny := 2\n",
    ],
)
async def test_a_root_that_does_not_load_denies_everything_and_is_named(home: Path, body: str) -> None:
    _write(home, body)
    async with _policy(home) as policy:
        assert await _ask(policy) == ("deny", ("policy-invalid",))
        answer = await policy.ask(facts.EGRESS, TRIALS[facts.EGRESS])
        assert (answer.verdict, answer.policy) == (INVALID, NO_POLICY)
        shown = await policy.show()
        assert shown.problem
        assert [module.name for module in shown.modules if module.problem] == ["policy/mine.rego"]
        (home / "policy/mine.rego").unlink()
        assert (await _ask(policy))[0] == "allow"
        assert (await policy.show()).problem is None


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (HEAD + "deny contains if {\n", "policy/mine.rego, line 5: "),
        (HEAD + "deny := 1\ndeny := 2\n", "data.boxmaker.tool.decision is not an answer: see the built-in policy"),
        ("package my.own\n", "policy/mine.rego: the package my.own is read by nothing; it must be one of "),
        (HEAD + "denies := 1\n", "policy/mine.rego: boxmaker.root has neither deny nor ask, so it decides nothing"),
    ],
)
async def test_the_problem_says_where_and_what(home: Path, body: str, problem: str) -> None:
    _write(home, body)
    async with _policy(home) as policy:
        assert str((await policy.show()).problem).startswith(problem)


async def test_after_a_good_load_the_last_good_policy_stays(home: Path) -> None:
    _write(home, HEAD + 'deny contains "policy-denies" if input.tool == "memory"\n')
    async with _policy(home) as policy:
        assert (await _ask(policy, tool="memory"))[0] == "deny"
        before = (await policy.ask(facts.TOOL, ALLOWED)).policy
        _write(home, HEAD + "deny contains\n")
        assert await _ask(policy, tool="memory") == ("deny", ("policy-denies",))
        assert (await policy.ask(facts.TOOL, ALLOWED)).policy == before
        shown = await policy.show()
        assert shown.problem is None
        (left_out,) = [module for module in shown.modules if module.problem]
        assert left_out.name == "policy/mine.rego"
        assert str(left_out.problem).endswith("; the last good policy stays")
        _write(home, HEAD + 'deny contains "policy-denies" if input.tool == "recall"\n')
        assert (await _ask(policy, tool="recall"))[0] == "deny"


async def test_what_cannot_be_read_denies_everything(home: Path) -> None:
    (home / "policy").mkdir()
    (home / "policy/mine.rego").write_bytes(b"\xff")
    async with _policy(home) as policy:
        assert (await _ask(policy))[1] == ("policy-invalid",)
        assert (await policy.show()).problem == "policy/mine.rego: not UTF-8"


async def test_a_root_can_take_the_place_of_a_built_in_module(home: Path) -> None:
    own = 'package boxmaker.tool\n\nimport rego.v1\n\ndecision := {"allow": false, "ask": false, "reasons": {"policy-denies"}}\n'
    _write(home, own)
    async with _policy(home) as policy:
        assert await _ask(policy) == ("deny", ("policy-denies",))
        problems = {module.name: module.problem for module in (await policy.show()).modules}
        assert problems["built-in/tool.rego"] == "policy/mine.rego stands in its place"
        assert problems["built-in/egress.rego"] is None


async def test_a_deny_that_is_no_set_denies(home: Path) -> None:
    _write(home, HEAD + 'deny if input.tool == "memory"\n')
    async with _policy(home) as policy:
        assert (await _ask(policy))[0] == "allow"
        assert await _ask(policy, tool="memory") == ("deny", ("policy-invalid",))


@pytest.mark.parametrize(
    ("rule", "subject"),
    [
        ('regex.match("(a+)+$", input.arguments.x)', "a" * 40 + "!"),
        ('regex.match("^(a|b)*c$", input.arguments.x)', "ab" * 200_000),
    ],
    ids=["a pattern that never ends", "a subject that ends the process"],
)
async def test_a_pattern_that_hangs_or_crashes_denies_and_the_next_call_is_decided(
    home: Path, rule: str, subject: str
) -> None:
    _write(home, HEAD + f'deny contains "policy-denies" if {rule}\n')
    async with _policy(home, timeout_s=0.5) as policy:
        assert (await _ask(policy))[0] == "allow"
        before = _pid(policy)
        assert await _ask(policy, arguments={"x": subject}) == ("deny", ("policy-invalid",))
        assert (await _ask(policy, arguments={"x": "b"}))[0] == "allow"
        assert _pid(policy) != before
        assert not Path(f"/proc/{before}").exists()


async def test_a_worker_that_was_killed_is_a_denial_once(home: Path) -> None:
    async with _policy(home) as policy:
        assert (await _ask(policy))[0] == "allow"
        os.kill(_pid(policy), 9)
        assert await _ask(policy, approved=True) == ("deny", ("policy-invalid",))
        assert (await _ask(policy, approved=True))[0] == "allow"


async def test_a_worker_that_is_killed_while_it_decides_is_a_denial_once(home: Path) -> None:
    _write(home, HEAD + 'deny contains "policy-denies" if regex.match("(a+)+$", input.arguments.x)\n')
    async with _policy(home, timeout_s=60) as policy, anyio.create_task_group() as tasks:
        assert (await _ask(policy))[0] == "allow"
        found = []

        async def one(arguments: dict[str, str]) -> None:
            found.append(await _ask(policy, arguments=arguments))

        tasks.start_soon(one, {"x": "a" * 40 + "!"})
        await anyio.sleep(0.2)
        tasks.start_soon(one, {"x": "b"})  # waits for its turn
        await anyio.sleep(0.05)
        assert found == []
        os.kill(_pid(policy), 9)
        while len(found) < 2:  # noqa: ASYNC110  (other tasks')
            await anyio.sleep(0.02)
        assert found == [("deny", ("policy-invalid",)), ("allow", ("built-in",))]


async def test_what_loads_slowly_holds_no_decision_up_and_takes_its_place_later(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerd.policy.inforce._PATIENCE_SECONDS", 0.1)
    async with _policy(home) as policy:
        assert (await _ask(policy))[0] == "allow"
        start, gate = Worker.start, anyio.Event()

        async def slow(texts: Sequence[tuple[str, str]]) -> Worker:
            await gate.wait()
            return await start(texts)

        monkeypatch.setattr(Worker, "start", slow)
        _write(home, HEAD + 'deny contains "policy-denies" if input.tool == "recall"\n')
        before = (await policy.ask(facts.TOOL, ALLOWED)).policy
        for _ in range(3):
            answer = await policy.ask(facts.TOOL, ALLOWED)
            assert (answer.verdict.verdict, answer.policy) == ("allow", before)
        _write(home, HEAD + 'deny contains "policy-denies" if input.tool in {"recall", "memory"}\n')  # meanwhile
        gate.set()
        while (await _ask(policy, tool="memory"))[0] == "allow":  # noqa: ASYNC110  (another task's)
            await anyio.sleep(0.02)
        assert await _ask(policy) == ("deny", ("policy-denies",))


async def test_whatever_is_raised_in_loading_denies_and_the_next_change_is_tried(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr("brokerd.policy.inforce.modules.compose", fail)
        async with _policy(home) as policy:
            assert await _ask(policy) == ("deny", ("policy-invalid",))
            patch.undo()
            _write(home, HEAD + 'deny contains "policy-denies" if input.tool == "memory"\n')
            assert (await _ask(policy))[0] == "allow"


async def test_a_worker_is_not_dumpable() -> None:
    """Its memory, in which the arguments of calls are, is no file of another process's."""
    code = (
        "import os, sys, ctypes; from proto.role.confined import confine;"
        " confine(os.getppid(), cpu_s=None, memory_bytes=None); sys.exit(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    done = await anyio.run_process([sys.executable, "-I", "-c", code], check=False)
    assert done.returncode == 0
    code = "import sys, ctypes; sys.exit(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    assert (await anyio.run_process([sys.executable, "-I", "-c", code], check=False)).returncode == 1


async def test_a_worker_that_cannot_be_started_is_a_denial_and_is_tried_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    async with _policy(home) as policy:
        with monkeypatch.context() as patch:
            patch.setattr("proto.role.worker.subprocess.Popen", refuse)
            assert await _ask(policy) == ("deny", ("policy-invalid",))
            shown = await policy.show()
            assert shown.problem == "the policy cannot be loaded: no worker can be started: Too many open files"
        policy._try_again = 0.0
        assert (await _ask(policy))[0] == "allow"


async def test_a_caller_that_is_cancelled_leaves_no_answer_for_the_next(home: Path) -> None:
    _write(home, HEAD + 'deny contains "policy-denies" if regex.match("(a+)+$", input.arguments.x)\n')
    async with _policy(home) as policy:
        assert (await _ask(policy))[0] == "allow"
        with anyio.move_on_after(0.1) as scope:
            await _ask(policy, arguments={"x": "a" * 40 + "!"})
        assert scope.cancelled_caught
        assert (await _ask(policy))[0] == "allow"


@pytest.mark.parametrize("term", ["", "{", "nonsense", '{"a":}', "1 2"])
async def test_an_input_that_is_refused_ends_the_worker_and_denies(
    home: Path, term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine would keep the input before it."""
    async with _policy(home) as policy:
        assert (await _ask(policy))[0] == "allow"
        with monkeypatch.context() as patched:
            patched.setattr("brokerd.policy.inforce.text_of", lambda _: term)
            assert (await _ask(policy, session={**ALLOWED["session"], "class_rank": 2}))[0] == "deny"
        assert (await _ask(policy, approved=True))[0] == "allow"


async def test_an_entry_point_that_is_not_there_denies(home: Path) -> None:
    async with _policy(home) as policy:
        assert (await policy.ask("boxmaker/tool/nowhere", ALLOWED)).verdict == INVALID


async def test_a_megabyte_of_arguments_is_decided(home: Path) -> None:
    async with _policy(home) as policy:
        assert (await _ask(policy, arguments={"x": 'a"\n\0' * 250_000}))[0] == "allow"


async def test_many_at_once_each_get_their_own_answer(home: Path) -> None:
    _write(home, HEAD + 'deny contains "policy-denies" if input.tool == "memory"\n')
    async with _policy(home) as policy:
        found: dict[int, str] = {}

        async def one(number: int) -> None:
            found[number] = (await _ask(policy, tool="memory" if number % 2 else "recall"))[0]

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(one, number)
        assert found == {number: "deny" if number % 2 else "allow" for number in range(50)}


async def test_a_worker_says_why_it_cannot_load_and_ends() -> None:
    with pytest.raises(LoadRefused, match="the first statement is not a package"):
        await Worker.start([("m", "")])


async def test_a_worker_ends_when_its_brokerd_is_gone() -> None:
    worker = await Worker.start(
        [
            ("built-in", "package boxmaker.tool\n\nimport rego.v1\n\ndecision := 1\n\n"),
            ("e", "package boxmaker.egress\n\nimport rego.v1\n\ndecision := 1\n"),
        ]
    )
    pid = worker.pid
    assert await worker.ask(facts.TOOL, "{}", 5) == '{"expressions":[1]}'
    await worker.end()
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(WorkerLost):
        await worker.ask(facts.TOOL, "{}", 5)


async def test_what_was_answered_is_not_asked_again_until_the_policy_changes(home: Path) -> None:
    async with _policy(home) as policy:
        assert await _ask(policy) == ("allow", ("built-in",))
        os.kill(_pid(policy), signal.SIGSTOP)
        # The worker answers nothing now; what the policy does not read makes no other question.
        assert await _ask(policy, arguments={"query": "another"}) == ("allow", ("built-in",))
        os.kill(_pid(policy), signal.SIGCONT)
        _write(home, HEAD + 'deny contains "policy-denies" if input.arguments.query == "another"\n')
        assert await _ask(policy, arguments={"query": "another"}) == ("deny", ("policy-denies",))
        assert await _ask(policy) == ("allow", ("built-in",))


async def test_an_answer_by_chance_or_by_the_clock_is_asked_for_each_time(home: Path) -> None:
    _write(home, HEAD + 'deny contains "policy-denies" if time.now_ns() < 0\n')
    async with _policy(home, timeout_s=0.5) as policy:
        assert await _ask(policy) == ("allow", ("built-in",))
        os.kill(_pid(policy), signal.SIGSTOP)
        assert await _ask(policy) == ("deny", ("policy-invalid",))
        assert await _ask(policy) == ("allow", ("built-in",))
