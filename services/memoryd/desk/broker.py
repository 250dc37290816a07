"""What brokerd asks: a decided call of recall or memory, with the session's label when it was decided.

A call is answered once: another one of the same session and id gets the first one's answer, and waits for it if it is
under way.
"""

import anyio
import anyio.to_thread

from memoryd.acts import recall, show, write
from memoryd.desk import reads
from memoryd.desk.indexing import Indexing
from memoryd.desk.turns import Turns
from memoryd.holdings import Holdings
from memoryd.identity.writer import Abandoned
from memoryd.index import RecallAnswer
from memoryd.refusal import Refusal
from memoryd.trail.answers import Answer, Key
from proto.faults import Fault
from proto.labels import PRIVATE, Label
from proto.messages.broker import ToolResponse
from proto.messages.memory import MemoryCall
from proto.reasons import REASONS
from proto.role import trace
from proto.role.log import logger
from proto.role.serve import Connection
from proto.tools import MemoryArguments, RecallArguments, parse_arguments

_RECALL_THREADS = 4


class BrokerDesk:
    """Answers on run/broker-memory/memory.sock."""

    def __init__(self, holdings: Holdings, turns: Turns, indexing: Indexing) -> None:
        self._holdings = holdings
        self._turns = turns
        self._indexing = indexing
        self._threads = anyio.CapacityLimiter(_RECALL_THREADS)
        self._under_way: dict[Key, anyio.Event] = {}

    async def answer(self, request: MemoryCall, connection: Connection) -> ToolResponse:
        """The reply to a call; raises Fault when the memory or the index cannot be used."""
        key = (request.request.session, request.request.call)
        while under_way := self._under_way.get(key):
            await under_way.wait()
        self._under_way[key] = anyio.Event()
        try:
            answer = await self._given_before(key) or await self._first_answer(request, connection)
        finally:
            self._under_way.pop(key).set()
        return ToolResponse(
            call=answer.call, ok=answer.ok, text=answer.text, class_=answer.class_, untrusted=answer.untrusted
        )

    async def _given_before(self, key: Key) -> Answer | None:
        """What a repeated call was answered the first time."""
        if not write.may_be_answered(self._holdings, *key):
            return self._holdings.answers.find(*key)
        told = await self._turns.take(write.answered, self._holdings, *key)
        return None if told is None else _answer(key, told, PRIVATE)

    async def _first_answer(self, request: MemoryCall, connection: Connection) -> Answer:
        try:
            ok, (text, label) = True, await self._perform(request, connection)
        except Refusal as refusal:
            ok, text, label = False, refusal.sentence, PRIVATE
        except Abandoned:
            raise anyio.BrokenResourceError from None
        call = request.request
        answer = _answer((call.session, call.call), text, label, ok=ok)
        if not write.may_be_answered(self._holdings, call.session, call.call):
            try:
                self._holdings.answers.keep(answer)
            except OSError as error:
                logger().error("answer-not-kept", call=call.call, error=str(error))
        return answer

    async def _perform(self, request: MemoryCall, connection: Connection) -> tuple[str, Label]:
        call = request.request
        arguments = _arguments(request)
        if isinstance(arguments, RecallArguments):
            with trace.span(reads.NAME, "server") as span:
                found = await self._recall(call.session, arguments)
                reads.recalled(span, call.session, arguments.query, request.taint, found)
            return found.text, found.label
        asked = write.Call(
            session=call.session,
            call=call.call,
            label=Label(class_=request.taint, untrusted=request.untrusted),
            arguments=arguments,
            raw=call.arguments,
        )
        text = await self._turns.take(write.write, self._holdings, asked, lambda: not connection.peer_gone())
        self._indexing.wake()
        return text, PRIVATE

    async def _recall(self, session: str, arguments: RecallArguments) -> RecallAnswer:
        if self._holdings.shelf.notebook.may_differ():
            await self._turns.take(show.look_at_notes, self._holdings)
        await self._indexing.caught_up()
        try:
            return await anyio.to_thread.run_sync(
                recall.recall, self._holdings, session, arguments, limiter=self._threads
            )
        except OSError as error:
            raise Fault("memory-unavailable", f"the recall cannot be logged: {error}") from None


def _answer(key: Key, text: str, label: Label, *, ok: bool = True) -> Answer:
    session, call = key
    return Answer(session=session, call=call, ok=ok, text=text, class_=label.class_, untrusted=label.untrusted)


def _arguments(request: MemoryCall) -> RecallArguments | MemoryArguments:
    """The arguments in their shape, which brokerd has checked too.

    Raises:
        Refusal: they have not, or the tool is none of ours.

    """
    tool = request.request.tool
    if tool not in {"recall", "memory"}:
        raise Refusal(REASONS["tool-unknown"])
    try:
        arguments = parse_arguments(tool, request.request.arguments)
    except ValueError as error:
        raise Refusal(f"{REASONS['arguments']}: {error}") from None
    assert isinstance(arguments, RecallArguments | MemoryArguments)  # noqa: S101  (the shapes of these two tools)
    return arguments
