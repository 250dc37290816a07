"""`bxctl up` over fake daemons: ready when they answer, restarted when they die, stopped in reverse, none left behind."""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from bxctl.providers import Choice
from bxctl.supervise import processes
from bxctl.supervise.log import Log
from bxctl.supervise.plan import Plan, Probe, Program
from proto.faults import Fault
from tests.bxctl import fake_daemon

pytestmark = pytest.mark.anyio


def _plan(home: Path, *programs: tuple[str, str]) -> Plan:
    return Plan(
        tuple(
            Program(
                name,
                (sys.executable, fake_daemon.__file__, str(home / f"{name}.sock"), mode),
                {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                (Probe(home / f"{name}.sock", "frames"),),
            )
            for name, mode in programs
        ),
        Choice("local", "none"),
        None,
    )


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def _until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110  (what is waited for is another process)
            await anyio.sleep(0.02)


@pytest.fixture
def log(home: Path) -> Iterator[Log]:
    """The log of one `up`."""
    log = Log(home / "up.log", None, colours=False)
    yield log
    log.close()


async def test_all_run_inside_the_block_and_none_after(home: Path, log: Log) -> None:
    async with processes.running(_plan(home, ("one", ""), ("two", "")), log) as box:
        pids = list(box.pids.values())
        assert len(pids) == 2
        assert all(map(_alive, pids))
    assert not any(map(_alive, pids))
    text = (home / "up.log").read_text()
    # The last started is the first to stop.
    assert re.findall(r"(\w+) +stopped", text) == ["two", "one"]


async def test_a_cancellation_from_outside_lets_them_end_by_themselves(home: Path, log: Log) -> None:
    with anyio.CancelScope() as scope:
        async with processes.running(_plan(home, ("one", ""), ("two", "")), log) as box:
            pids = list(box.pids.values())
            scope.cancel()
            await anyio.sleep_forever()
    assert not any(map(_alive, pids))
    assert re.findall(r"(\w+) +stopped", (home / "up.log").read_text()) == ["two", "one"]


async def test_one_that_dies_is_started_again(home: Path, log: Log) -> None:
    async with processes.running(_plan(home, ("one", "")), log) as box:
        before = box.pids["one"]
        os.kill(before, signal.SIGKILL)
        await _until(lambda: box.pids.get("one", before) != before)
    assert "one ended (signal 9); it is started again in 0.5 s" in (home / "up.log").read_text()


async def test_one_that_cannot_start_ends_all_with_its_own_words(home: Path, log: Log) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        async with processes.running(_plan(home, ("one", ""), ("two", "fails")), log):
            pytest.fail("it was never ready")
    (fault,) = raised.value.exceptions
    assert isinstance(fault, Fault)
    assert fault.message == (
        "two ended before it was ready (exit code 1):\n  fake: config.toml, line 3: unknown key \\u{1b}[2J"
    )


async def test_what_a_dead_daemon_began_ends_with_it(home: Path, log: Log) -> None:
    async with processes.running(_plan(home, ("one", "parent")), log) as box:
        (child,) = re.findall(r"child pid=(\d+)", (home / "up.log").read_text())
        os.kill(box.pids["one"], signal.SIGKILL)
        await _until(lambda: not _alive(int(child)))
        await _until(lambda: "started again" in (home / "up.log").read_text())


async def test_one_that_does_not_end_is_killed(home: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.3)
    async with processes.running(_plan(home, ("one", "stubborn")), log) as box:
        pid = box.pids["one"]
    assert not _alive(pid)
    assert "one did not end in 0.3 s and is killed" in (home / "up.log").read_text()


async def test_one_that_is_never_ready_is_named(home: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "READY_SECONDS", 0.3)
    plan = _plan(home, ("one", ""))
    elsewhere = plan.programs[0]._replace(probes=(Probe(home / "nowhere.sock", "frames"),))
    with pytest.raises(ExceptionGroup) as raised:
        async with processes.running(plan._replace(programs=(elsewhere,)), log):
            pytest.fail("it was never ready")
    assert str(raised.value.exceptions[0]) == "one did not answer within 0.3 s (runbook: start-failed)"


async def test_a_daemon_does_not_outlive_a_supervisor_that_is_killed(home: Path) -> None:
    script = (
        "import anyio, sys; from pathlib import Path; from tests.bxctl.test_processes import _plan; "
        "from bxctl.supervise import processes; from bxctl.supervise.log import Log\n"
        "async def main():\n"
        f"    home = Path({str(home)!r})\n"
        "    async with processes.running(_plan(home, ('one', '')), Log(home / 'up.log', None, colours=False)) as box:\n"
        "        print(box.pids['one'], flush=True)\n"
        "        await anyio.sleep_forever()\n"
        "anyio.run(main)\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    async with await anyio.open_process([sys.executable, "-c", script], env=environ) as supervisor:
        assert supervisor.stdout is not None
        with anyio.fail_after(20):
            pid = int(await supervisor.stdout.receive())
        assert _alive(pid)
        supervisor.kill()
        await supervisor.wait()
    await _until(lambda: not _alive(pid))
