"""What may be asked on the socket, and the one place where a fault becomes an answer.

One generation runs at a time, in a worker thread, and ends when its client goes; the others wait. It never waits for a
slow client: there is room for every piece that one answer can have.
"""

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import anyio
import anyio.abc
import anyio.from_thread
import anyio.to_thread

from boxmaker_model import MODEL_ID, answers, replies
from boxmaker_model.claims import Watch
from boxmaker_model.connection import Connection, Request, Unreadable
from boxmaker_model.engine import Ending, EngineError
from boxmaker_model.plan import Call, Say, Words, plan
from boxmaker_model.prompt import MOST_TOKENS, Prompt
from boxmaker_model.replies import Outcome, Reply
from boxmaker_model.request import ChatRequest, RequestError, decode
from proto.role.log import logger

MOST_CONNECTIONS: Final = 64
_METHODS: Final = {"/v1/chat/completions": "POST", "/v1/models": "GET", "/health": "GET"}

Emit = Callable[[str], Awaitable[None]]


class Model(Protocol):
    """What the desk needs of `engine.Engine`; both methods block, and are called from worker threads."""

    context_tokens: int

    def count(self, text: str) -> int:
        """The tokens of a text."""

    def generate(self, prompt: Prompt, on_text: Callable[[str], None], stopped: Callable[[], bool]) -> Ending:
        """Generate until the end, or until `stopped`."""


class Desk:
    """Answers the clients of one model."""

    def __init__(self, engine: Model) -> None:
        self._engine = engine
        self._generating = anyio.Lock()
        self._open = 0

    async def serve_client(self, stream: anyio.abc.SocketStream) -> None:
        """Answer one client until it ends."""
        self._open += 1
        try:
            async with stream:
                await self._answer_all(Connection(stream))
        except Exception:  # noqa: BLE001  (one client's connection must not end the others')
            logger().exception("connection-failed")
        finally:
            self._open -= 1

    async def _answer_all(self, connection: Connection) -> None:
        if self._open > MOST_CONNECTIONS:
            await _refuse(connection, RequestError("too many connections", status=503, code="busy"))
            await connection.drain()
            return
        try:
            while request := await connection.next_request():
                async with connection.cancelled_when_gone():
                    await self._answer(connection, request)
        except Unreadable as error:
            await _refuse(connection, RequestError(error.message, status=error.status))
            await connection.drain()

    async def _answer(self, connection: Connection, request: Request) -> None:
        try:
            await self._route(connection, request)
        except RequestError as error:
            await _refuse(connection, error)
        except Exception:  # noqa: BLE001  (whatever a request does, the next one is answered)
            logger().exception("request-failed")
            await _refuse(connection, RequestError("the embedded model failed; its log says more", status=500))

    async def _route(self, connection: Connection, request: Request) -> None:
        method = _METHODS.get(request.path)
        if method is None:
            raise RequestError(f"there is nothing here; try {', '.join(_METHODS)}", status=404, code="not_found")
        if request.method != method:
            raise RequestError(f"{request.path} takes {method}", status=405, code="method_not_allowed")
        match request.path:
            case "/health":
                await connection.respond(200, replies.encode({"status": "ok", "model": MODEL_ID}))
            case "/v1/models":
                await connection.respond(200, replies.models())
            case _:
                await self._complete(connection, decode(request.body))

    async def _complete(self, connection: Connection, request: ChatRequest) -> None:
        prompt_tokens = await self._count_prompt(request)
        reply = Reply()
        if not request.stream:
            outcome = await self._carry_out(request, prompt_tokens, _to_nobody)
            await connection.respond(200, reply.whole(outcome))
            return

        async def emit(text: str) -> None:
            await connection.send_events(reply.piece(text))

        await connection.start_events()
        await connection.send_events(reply.start())
        try:
            outcome = await self._carry_out(request, prompt_tokens, emit)
            await connection.send_events(reply.end(outcome, with_usage=request.wants_usage))
        except EngineError as error:
            await connection.send_events(replies.error_event(str(error)))
        await connection.end_events()

    async def _count_prompt(self, request: ChatRequest) -> int:
        tokens = await anyio.to_thread.run_sync(self._engine.count, request.rendered)
        if tokens > (limit := self._engine.context_tokens):
            sentence = f"the request has {tokens:,} tokens, and this model's context {limit:,}"
            raise RequestError(sentence, code="context_length_exceeded")
        return tokens

    async def _carry_out(self, request: ChatRequest, prompt_tokens: int, emit: Emit) -> Outcome:
        match plan(request):
            case Call() as call:
                tokens = await anyio.to_thread.run_sync(self._engine.count, call.tool + call.arguments)
                return Outcome(None, call, "tool_calls", prompt_tokens, tokens)
            case Say(text):
                await emit(text)
                tokens = await anyio.to_thread.run_sync(self._engine.count, text)
                return Outcome(text, None, "stop", prompt_tokens, tokens)
            case Words() as words:
                return await self._speak(words, prompt_tokens, emit)

    async def _speak(self, words: Words, prompt_tokens: int, emit: Emit) -> Outcome:
        said: list[str] = []
        watch = Watch()
        results: list[Ending | EngineError] = []
        stop = threading.Event()
        to_client, pieces = anyio.create_memory_object_stream[str](MOST_TOKENS * 2)

        def hand_over(piece: str) -> None:
            # The pieces are closed when the client has gone; `stop` is set then.
            with suppress(anyio.BrokenResourceError):
                anyio.from_thread.run_sync(to_client.send_nowait, piece)

        async def generate() -> None:
            with to_client:
                async with self._generating:
                    work = partial(self._generate, words.prompt, hand_over, stop.is_set)
                    results.append(await anyio.to_thread.run_sync(work))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(generate)
            try:
                async for piece in pieces:
                    # Words about entries may use the entries' own, and those are quoted after them.
                    text = piece if words.prompt.facts else watch.take(piece)
                    if text:
                        said.append(text)
                        await emit(text)
                    if watch.caught:
                        break
            finally:
                # The thread sees it within a tenth of a second, and the task group waits for that.
                stop.set()
                pieces.close()
        (result,) = results
        if isinstance(result, EngineError):
            raise result
        if rest := "" if words.prompt.facts else watch.end():
            said.append(rest)
            await emit(rest)
        ending = Ending("stop", result.completion_tokens) if watch.caught else result
        return await self._finish(words, said, ending, prompt_tokens, emit)

    def _generate(
        self, prompt: Prompt, on_text: Callable[[str], None], stopped: Callable[[], bool]
    ) -> Ending | EngineError:
        """Generate in a worker thread; a failure is a result, so that no task group wraps it."""
        try:
            return self._engine.generate(prompt, on_text, stopped)
        except EngineError as error:
            return error

    async def _finish(self, words: Words, said: list[str], ending: Ending, prompt_tokens: int, emit: Emit) -> Outcome:
        tokens = ending.completion_tokens
        suffix = words.suffix or ("" if "".join(said).strip() else answers.NO_WORDS)
        if suffix:
            said.append(suffix)
            await emit(suffix)
            tokens += await anyio.to_thread.run_sync(self._engine.count, suffix)
        return Outcome("".join(said), None, ending.finish, prompt_tokens, tokens)


async def _to_nobody(_text: str) -> None:
    """Emit nothing: the answer goes out whole."""


async def _refuse(connection: Connection, refusal: RequestError) -> None:
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    body = replies.encode(replies.error(refusal.message, kind, refusal.code))
    allow = [("Allow", ", ".join(sorted(set(_METHODS.values()))))] if refusal.status == 405 else None
    await connection.respond(refusal.status, body, allow)
