"""`bxctl run`: everything with one command. A home if there is none, the box up behind the chat, all ended with it."""

import os
import shutil
import signal
import subprocess
import textwrap
import time

from bxctl import eventloop, exits, providers, render
from bxctl.chat import once, talk
from bxctl.commands.init import login_name, make, tell
from bxctl.places import Box
from bxctl.supervise.lock import is_held
from bxctl.supervise.model import SMALL, not_heeded
from bxctl.supervise.plan import MODEL, Plan, environment, module
from bxctl.supervise.up import started
from proto.faults import Fault

_ROW = "owner-loop"
_OTHER_START_SECONDS = 60.0
_ANOTHER_RUN_SECONDS = 20.0


def run(box: Box, question: str | None) -> int:
    """Chat, or answer one question; the exit code."""
    if not box.made:
        done = make(box, login_name(), "dom-me")
        if _is_watched(question):
            tell(box, done)
    deadline = time.monotonic() + _ANOTHER_RUN_SECONDS
    while not _up_already(box):
        try:
            return eventloop.run(_run, box, question)
        except Fault as fault:
            # Another one began in the same moment: its box is used, or this one's turn comes.
            if fault.code != "box-is-up" or not is_held(box.own) or time.monotonic() > deadline:
                raise
    if said := not_heeded(box, os.environ):
        render.problem(said)
    return once.ask(box, question) if question is not None else talk.talk(box)


async def _run(box: Box, question: str | None) -> int:
    async with eventloop.until(signal.SIGTERM, signal.SIGHUP):
        if _is_watched(question):
            print("starting the box …", flush=True)
        async with started(box, to_terminal=False) as (_, made):
            if question is not None:
                if _is_small(made):
                    render.problem(SMALL)
                return await once.asked(box, question)
            if _is_watched(question):
                introduce(box, made)
            code = await talk.talking(box)
            if _is_watched(question):
                print("stopping the box …", flush=True)
            return code
    return exits.INTERRUPTED


def _is_watched(question: str | None) -> bool:
    """Whether a person follows a conversation; what is piped, or one answer, is printed alone."""
    return question is None and render.is_conversation()


def introduce(box: Box, made: Plan) -> None:
    """Say what answers, and how to have another model."""
    if _is_small(made):
        render.lines(textwrap.fill(_described(), min(100, shutil.get_terminal_size().columns)))
        print(f"\n{providers.HOW_TO_NAME}\n")
    else:
        render.line(f"model: {made.model}")
    render.line(f"log: {box.own / 'up.log'}")


def _is_small(made: Plan) -> bool:
    return any(program.name == MODEL for program in made.programs)


def _described() -> str:
    """What the embedded model says that it is."""
    command = module("boxmaker_model", "--describe")
    environ = environment(os.environ)
    said = subprocess.run(command, env=environ, cwd="/", capture_output=True, text=True, check=False, timeout=30)
    return said.stdout.strip() or "the embedded model"


def _up_already(box: Box) -> bool:
    """Whether a box is up on this home; one that is just starting is waited for.

    Raises:
        Fault: `box-is-up`: another process holds the home, but its loopd does not answer.

    """
    deadline = time.monotonic() + _OTHER_START_SECONDS
    while not box.answers(_ROW):
        if not is_held(box.own):
            return False
        if time.monotonic() > deadline:
            raise Fault("box-is-up", f"a box is up on {box.home}, but loopd does not answer; see {box.own / 'up.log'}")
        time.sleep(0.1)
    return True
