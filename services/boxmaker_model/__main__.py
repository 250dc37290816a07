"""The embedded model's command line. It reads no file of settings.

- `boxmaker-model serve --socket PATH [--context TOKENS]`: load the model, answer on the socket, end with 0 on SIGTERM;
  before it is ready, SIGTERM ends it at once.
- `boxmaker-model count`: the number of the model's tokens in the text on standard input.
- `boxmaker-model --describe`: one line that says what the model is.
"""

import argparse
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Final, NoReturn

import anyio
import anyio.abc

from boxmaker_model import MODEL_ID, WHAT_IT_IS
from boxmaker_model.desk import Desk
from boxmaker_model.engine import CONTEXT_TOKENS, Engine, EngineError
from boxmaker_model.tokens import count_tokens
from boxmaker_model.weights import ModelAbsent
from proto.faults import Fault
from proto.role import listen, log, ready
from proto.role.loop import Loop
from proto.role.main import harden

_LEAST_CONTEXT: Final = 256


def main() -> int:
    """The entry point; its exit code: 1, with one sentence, when the model cannot run here."""
    arguments = _parse()
    if arguments.describe:
        sys.stdout.write(f"{WHAT_IT_IS}\n")
        return 0
    try:
        if arguments.verb == "count":
            text = sys.stdin.buffer.read().decode(errors="replace")
            sys.stdout.write(f"{count_tokens(text)}\n")
            return 0
        harden()
        log.start("boxmaker-model", os.environ.get("BOXMAKER_LOG", "info"))
        _serve_until_ended(arguments.socket, arguments.context)
    except (ModelAbsent, EngineError, Fault, OSError) as error:
        sys.stderr.write(f"boxmaker-model: {error}\n")
        return 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="boxmaker-model",
        description="The embedded model of a box without a provider.",
        epilog="example: boxmaker-model serve --socket ~/box/run/egress-model/model.sock",
    )
    parser.add_argument("--describe", action="store_true", help="say in one line what the model is, and end")
    verbs = parser.add_subparsers(dest="verb")
    serve = verbs.add_parser("serve", help="answer chat completions until SIGTERM")
    serve.add_argument("--socket", type=Path, required=True, help="the Unix socket to answer on")
    serve.add_argument("--context", type=int, default=CONTEXT_TOKENS, help="tokens a request may have, at most 8192")
    verbs.add_parser("count", help="count the tokens of the text on standard input")
    arguments = parser.parse_args()
    if not arguments.describe and arguments.verb is None:
        parser.error("say serve, count, or --describe")
    if arguments.verb == "serve" and not _LEAST_CONTEXT <= arguments.context <= CONTEXT_TOKENS:
        parser.error(f"--context is {_LEAST_CONTEXT} to {CONTEXT_TOKENS}")
    return arguments


def _serve_until_ended(path: Path, context_tokens: int) -> NoReturn:
    # While the model loads, no handler of Python's runs, and an exception after that waits for llama.cpp for ever.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    with listen.listen(path) as listening:
        engine = Engine(path.with_name(f"inner-{path.name}"), context_tokens)
        try:
            anyio.run(_serve, engine, listening, backend_options={"loop_factory": Loop})
        finally:
            engine.remove_socket()
    log.logger().info("stopped")
    sys.stderr.flush()
    # There is nothing more to keep, and llama.cpp's own end takes long, or for ever when it has only just begun.
    os._exit(0)


async def _serve(engine: Engine, listening: socket.socket) -> None:
    desk = Desk(engine)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with (
            await anyio.abc.SocketListener.from_socket(listening) as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, desk.serve_client)
            log.logger().info("ready", model=MODEL_ID, context_tokens=engine.context_tokens)
            ready.notify("READY=1")
            async for _ in signals:
                ready.notify("STOPPING=1")
                tasks.cancel_scope.cancel()
                return


if __name__ == "__main__":
    sys.exit(main())
