"""The measurements, side by side in one run: `make bench`, or `python -m tests.bench NAME…` for some of them.

Ratios between two things measured in the same run mean something on any machine; the rest is for this one.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from proto import sockets


@contextmanager
def _home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bx"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _ping() -> None:
    from tests.bench import ping
    from tests.e2e.box import running

    with _home() as home, running(home, "memoryd"):
        _say(ping.compare(sockets.socket("owner-memory").at(home), home))


def _box() -> None:
    from tests.bench import box

    with _home() as home:
        _say(box.measure(home))


def _start() -> None:
    from tests.bench import start

    _say(start.measure())


def _units() -> None:
    from tests.bench import units

    _say(units.measure())


def _recall() -> None:
    from tests.bench import recall

    recall.main()


def _egress() -> None:
    from tests.bench import egress

    with _home() as home:
        for line in egress.measure(home):
            _say([line])


def _spend() -> None:
    from tests.bench import spend

    with _home() as home:
        _say([spend.measure(home)])


def _threads() -> None:
    from tests.bench import threads

    with _home() as home:
        for line in threads.measure(home):
            _say([line])


def _breaks() -> None:
    from tests.bench import threads

    with _home() as home:
        _say([threads.breaks(home)])


def _soak() -> None:
    from tests.egressd import soak

    soak.main(["--calls", "10000"])


def _hostile() -> None:
    from tests.hostile import frames, http_egress

    frames.main(["--count", "100000"])
    http_egress.main(["--count", "100000"])


def _kills() -> None:
    from tests.kill import brokerd_kill, memoryd_kill

    memoryd_kill.main(["--kills", "1000"])
    brokerd_kill.main(["--kills", "1000"])


MEASURES: Final[dict[str, Callable[[], None]]] = {
    "ping": _ping,
    "start": _start,
    "units": _units,
    "box": _box,
    "egress": _egress,
    "recall": _recall,
    "spend": _spend,
    "threads": _threads,
    "soak": _soak,
    "breaks": _breaks,
    "hostile": _hostile,
    "kills": _kills,
}
"""By name, the quick ones first."""


def _say(lines: list[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the measures that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASURES))
    names = parser.parse_args().names or list(MEASURES)
    if unknown := set(names) - set(MEASURES):
        parser.error(f"no measure is called {', '.join(sorted(unknown))}")
    for name in names:
        _say([f"-- {name}"])
        MEASURES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
