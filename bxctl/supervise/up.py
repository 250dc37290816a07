"""`bxctl up`: the box in the foreground of a terminal, or under a supervisor of its own."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from bxctl import eventloop, exits, render
from bxctl.places import OWNER_ROWS, Box
from bxctl.supervise.lock import only_one
from bxctl.supervise.log import Log
from bxctl.supervise.plan import Plan, plan
from bxctl.supervise.processes import Processes, running
from proto.faults import Fault
from proto.role import ready


def up(box: Box, *, quiet: bool) -> int:
    """Run the box until SIGINT, SIGTERM or SIGHUP; the exit code."""
    return eventloop.run(_up, box, quiet)


async def _up(box: Box, quiet: bool) -> int:
    async with (
        eventloop.until(signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
        started(box, to_terminal=not quiet) as (processes, made),
    ):
        if not quiet:
            render.line(f"the box is up: {', '.join(processes.pids)}; model {made.model}")
            render.line(f"home {box.home}; talk with it: {box.command('chat')}; ^C stops it")
            sys.stdout.flush()
        ready.notify("READY=1")
        await anyio.sleep_forever()
    ready.notify("STOPPING=1")
    return exits.OK


@asynccontextmanager
async def started(box: Box, *, to_terminal: bool) -> AsyncIterator[tuple[Processes, Plan]]:
    """The daemons of a home, up for as long as the block lasts.

    Raises:
        Fault: `home-missing`, `box-is-up`, `start-failed`, and what `plan` raises.

    """
    if not box.made:
        raise Fault("home-missing", f"there is no box at {box.home}; make one with: {box.command('init')}")
    if box.units is not None:
        raise Fault("box-is-up", f"systemd runs this box ({box.units}); start it with: {box.start}")
    made = plan(box.home, os.environ)
    with only_one(box.home, box.own, str(made.model)):
        for row in OWNER_ROWS:
            if box.answers(row):
                raise Fault("box-is-up", f"a daemon answers already at {box.socket(row)}; stop it first")
        log = Log(box.own / "up.log", sys.stderr if to_terminal else None, colours=render.coloured(sys.stderr))
        try:
            log.own(f"starting {', '.join(program.name for program in made.programs)} in {box.home}")
            async with running(made, log) as processes:
                yield processes, made
        finally:
            log.own("stopped")
            log.close()
