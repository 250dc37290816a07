"""One post: what came before it in its thread, its turn, and its answer, each once however often loopd is ended."""

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Final, NamedTuple

import anyio
import anyio.abc
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from loopd.channels.mattermost.answer import Answer, Place, Poster, outputs
from loopd.channels.mattermost.asked import Asked, Question
from loopd.channels.mattermost.division import divide
from loopd.channels.mattermost.growing import Growing
from loopd.channels.mattermost.ledger import Heard, Ledger, Thread
from loopd.channels.mattermost.posts import Post
from loopd.channels.mattermost.server import CallRefused, Server
from loopd.channels.mattermost.shown import block, plain
from loopd.channels.mattermost.whom import People, order_of_text
from loopd.config import Mattermost
from loopd.conversations import TRANSIENT, Conversations, Message
from loopd.ports.broker import BrokerPort
from loopd.session.baseline import Origin
from loopd.session.records import Record, ToolResult, User
from loopd.session.store import Store
from loopd.turn.steps import Said
from proto.faults import Fault
from proto.ids import is_approval_id
from proto.labels import PRIVATE, DataClass, Label
from proto.messages.loop import ChatApproval, ChatDelta, ChatDone, ChatFailed, ChatOpened, ChatTool
from proto.role.clock import stamp
from proto.role.log import logger

UNTRUSTED: Final = Label(DataClass.PRIVATE, untrusted=True)
"""What anybody but the owner wrote."""
QUESTION: Final = (
    "**A call waits for you**, until {expires}:\n{text}\n"
    "Put \u2705 or \u274c on this post, or write `approve` or `deny` in this thread."
)
FAILED: Final = "\u26a0\ufe0f {message}{runbook}"
_TYPING_SECONDS: Final = 4.0
_WAITS_FOR: Final = frozenset({"brokerd-unreachable", "memory-unavailable", "session-busy", "busy"})
"""Nothing was logged yet, and what is missing comes back by itself: the post waits."""
_TRIES: Final = 3
_FIRST_WAIT_SECONDS: Final = 1.0


class Work:
    """A post that is worked on; `edited` is what became of it meanwhile, `posts` are those that belong to its turn.

    `asked` is told of each post in which the owner is asked, once it is known; `waits`, by how many questions more or
    fewer the turn waits for him.
    """

    def __init__(self, post: Post, poster: Poster, asked: Callable[[str], None], waits: Callable[[int], None]) -> None:
        self.post = post
        self.poster = poster
        self.asked = asked
        self.waits = waits
        self.edited: Post | None = None
        self.stopping = False
        self.is_heard = False
        """Whether it is in the log, after what came before it in its thread."""

    @property
    def posts(self) -> set[str]:
        """The posts on which a reaction speaks of this turn."""
        return self.poster.posts | {self.post.id}


class Parts(NamedTuple):
    """What turns and threads need of the box and of the server; `limit` is the longest post, in characters."""

    server: Server
    ledger: Ledger
    store: Store
    conversations: Conversations
    broker: BrokerPort
    asked: Asked
    people: People
    config: Mattermost
    limit: int


class Turns:
    """Works on posts, one at a time in each thread. `tasks` outlives every turn."""

    def __init__(self, parts: Parts) -> None:
        self._server = parts.server
        self._ledger = parts.ledger
        self._store = parts.store
        self._conversations = parts.conversations
        self._asked = parts.asked
        self._people = parts.people
        self._config = parts.config
        self._limit = parts.limit

    def work(self, post: Post, asked: Callable[[str], None], waits: Callable[[int], None]) -> Work:
        """A post that is to be worked on."""
        place = Place(f"mm-{post.thread}", post.id, post.channel, post.thread)
        return Work(post, Poster(self._server, self._people.me, place, self._config.reconnect_most_s), asked, waits)

    async def was_answered(self, work: Work) -> bool:
        """Whether an answer to a post stands in its thread of which nothing is known here: the home is an older one."""
        thread = self._ledger.thread(work.post.thread)
        if thread is not None and thread.heard is not None and thread.heard.post == work.post.id:
            return False
        try:
            found = await work.poster.found()
        except CallRefused:
            return False
        if not any(part.isdigit() for part in found):
            return False
        logger().warning("mattermost-answered-before", session=self._session(work), post=work.post.id)
        return True

    async def run(self, tasks: anyio.abc.TaskGroup, work: Work, *, read_before: bool) -> None:
        """Work on a post until its answer stands in the thread, or can never stand there."""
        growing = Growing(self._limit, self._config.edit_every_s)
        answer = Answer(work.poster, growing)
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._type, work.post)
            async with anyio.create_task_group() as both:
                both.start_soon(self._turn, tasks, beside, work, answer, read_before)
                both.start_soon(answer.run)
            beside.cancel_scope.cancel()
        await self._files(work)

    async def _type(self, post: Post) -> None:
        while True:
            await self._server.typing(self._people.me, post.channel, post.thread)
            await anyio.sleep(_TYPING_SECONDS)

    # The turn, until it is over.

    async def _turn(
        self, tasks: anyio.abc.TaskGroup, beside: anyio.abc.TaskGroup, work: Work, answer: Answer, read_before: bool
    ) -> None:
        try:
            last = await self._until_over(tasks, beside, work, answer, read_before=read_before)
        except CallRefused as refused:
            # The thread cannot even be read: nothing can be posted to it either.
            logger().error("mattermost-not-read", why=str(refused), runbook="mattermost-not-posted")
            last = ChatFailed(session=None, code="internal", message="the thread cannot be read", runbook=None)
        finally:
            for question in self._asked.open():
                if question.thread == work.post.thread:
                    self._asked.close(question.approval)
        if isinstance(last, ChatDone):
            answer.end(last.text)
        else:
            runbook = f" (runbook: {last.runbook})" if last.runbook else ""
            answer.end(FAILED.format(message=plain(last.message), runbook=plain(runbook)))

    async def _until_over(
        self, tasks: anyio.abc.TaskGroup, beside: anyio.abc.TaskGroup, work: Work, answer: Answer, *, read_before: bool
    ) -> ChatDone | ChatFailed:
        wait_s, tries, again = _FIRST_WAIT_SECONDS, 0, False
        while True:
            answer.growing.restart()
            if (edited := work.edited) is not None:
                # What was said of the old text is no answer to the new one.
                work.post, work.edited, work.stopping = edited, None, False
            if edited is None and await self._is_logged(work):
                work.is_heard = True
                for part, there in (await answer.recover()).items():
                    if is_approval_id(part):
                        # Of a call that a crash ended: whoever answers it now is late.
                        self._asked.ask(Question(part, work.post.thread, there.id, there.at))
                        self._asked.close(part)
                events = self._conversations.go_on(tasks, self._session(work), again=again)
            else:
                events = await self._said(tasks, work, answer, read_before=read_before)
            last = await self._listen(events, beside, work, answer)
            if work.edited is not None and isinstance(last, ChatFailed):
                continue
            if isinstance(last, ChatDone):
                return last
            again = await self._is_logged(work)
            if not (last.code in TRANSIENT and tries < _TRIES if again else last.code in _WAITS_FOR):
                return last
            tries += 1
            logger().warning("turn-waits", session=self._session(work), code=last.code, wait_s=wait_s)
            await anyio.sleep(wait_s)
            wait_s = min(2 * wait_s, self._config.reconnect_most_s)

    async def _said(
        self, tasks: anyio.abc.TaskGroup, work: Work, answer: Answer, *, read_before: bool
    ) -> MemoryObjectReceiveStream[msgspec.Struct]:
        """Say a post in its session, after what came before it in the thread."""
        post = work.post
        thread = self._ledger.thread(post.thread)
        owner = post.user == self._people.owner if thread is None else thread.owner
        principal = post.user if thread is None else thread.principal
        origin = Origin(
            session=self._session(work),
            principal=principal,
            principal_class=DataClass.SECRET if owner else DataClass.PRIVATE,
            label=PRIVATE if owner else UNTRUSTED,
        )
        before = await self._before(post, thread) if read_before and post.root else []
        author = await self._author(post)
        label = None if author is None else UNTRUSTED
        said = Said(post.text, author, label, tuple(record for _, record in before))
        labels = (UNTRUSTED,) if author is not None or any(record.untrusted for _, record in before) else ()
        known = thread or Thread(channel=post.channel, principal=principal, owner=owner)

        def keep(number: int, kept: tuple[User, ...]) -> None:
            earlier = (
                []
                if not kept
                else [
                    _heard(one, number - len(kept) + index, record.text)
                    for index, (one, record) in enumerate(before[-len(kept) :])
                ]
            )
            heard = _heard(post, number, post.text)
            read = self._read_to(known, origin.session)
            self._ledger.put(post.thread, _with(known, heard, earlier, read))
            # From here on the turn is in the log: whatever is posted for it is found again by that.
            answer.search = known.heard is not None and known.heard.post == post.id
            work.is_heard = True

        return self._conversations.say(tasks, origin, Message(said, labels, keep))

    async def _listen(
        self,
        events: MemoryObjectReceiveStream[msgspec.Struct],
        beside: anyio.abc.TaskGroup,
        work: Work,
        answer: Answer,
    ) -> ChatDone | ChatFailed:
        """Follow a turn to its last event."""
        questions: dict[str, str] = {}
        with events, ExitStack() as at_end:
            at_end.callback(lambda: work.waits(-len(questions)))
            async for event in events:
                match event:
                    case ChatOpened() if work.stopping or work.edited is not None:
                        self._conversations.stop(self._session(work))
                    case ChatDelta(text=text):
                        answer.say(text)
                    case ChatTool(tool=tool, state="running"):
                        answer.do(tool)
                    case ChatTool(call=call):
                        if approval := questions.pop(call, None):
                            work.waits(-1)
                            self._asked.close(approval)
                    case ChatApproval() if questions.get(event.call) != event.approval:
                        # A call that is led on, or asked for again, asks anew: an answer to its older question is late.
                        if older := questions.get(event.call):
                            self._asked.close(older)
                        else:
                            work.waits(1)
                        questions[event.call] = event.approval
                        self._asked.ask(Question(event.approval, work.post.thread, ""))
                        beside.start_soon(self._ask, work, event)
                    case ChatDone() | ChatFailed():
                        return event
                    case _:
                        continue
        raise anyio.BrokenResourceError  # the daemon ends in the middle of the turn

    async def _ask(self, work: Work, event: ChatApproval) -> None:
        text = QUESTION.format(expires=plain(event.expires), text=block(event.text))
        *before, last = [part.text for part in divide(text, self._limit)]
        try:
            for number, part in enumerate(before, 1):
                await work.poster.make(f"{event.approval}-{number}", part, search=True)
            post = await work.poster.make(event.approval, last, search=True)
        except CallRefused as refused:
            logger().error("mattermost-not-posted", why=str(refused), runbook="mattermost-not-posted")
            return
        self._asked.put(event.approval, post.id, post.at)
        work.asked(post.id)

    # What the log says of a post.

    def _session(self, work: Work) -> str:
        return f"mm-{work.post.thread}"

    async def _is_logged(self, work: Work) -> bool:
        """Whether a post, as it is now, stands in its session's log; an older text of it counts once it is answered."""
        thread = self._ledger.thread(work.post.thread)
        heard = thread.heard if thread else None
        if heard is None or heard.post != work.post.id:
            return False
        records = await anyio.to_thread.run_sync(self._records, self._session(work))
        if not _is_record(records, heard):
            return False
        return heard.digest == _digest(work.post.text) or _is_answered(records)

    def _records(self, session: str) -> list[Record]:
        try:
            return self._store.load_only(session).records
        except Fault:
            return []

    def _read_to(self, thread: Thread, session: str) -> tuple[int, str]:
        """Up to where a thread's posts are in its session's log."""
        records = self._records(session)
        there = [(heard.at, heard.post) for heard in thread.earlier if _is_record(records, heard)]
        if thread.heard is not None and _is_record(records, thread.heard):
            there.append((thread.heard.at, thread.heard.post))
        return max([thread.read, *there])

    async def _before(self, post: Post, thread: Thread | None) -> list[tuple[Post, User]]:
        """What was said in a thread since it was read last, and before a post."""
        read = (0, "") if thread is None else self._read_to(thread, f"mm-{post.thread}")
        found = [
            one
            for one in await self._server.thread(post.thread)
            if read < one.order < post.order and one.user != self._people.me
            if not (one.kind or one.deleted or one.key) and one.text.strip() and order_of_text(one.text) is None
        ]
        return [(one, await self._record(one)) for one in found]

    async def _record(self, post: Post) -> User:
        time = stamp(datetime.fromtimestamp(post.at / 1000, UTC))
        author = await self._author(post)
        if author is None:
            return User(time=time, text=post.text, author=None)
        return User(time=time, text=post.text, author=author, class_=UNTRUSTED.class_, untrusted=UNTRUSTED.untrusted)

    async def _author(self, post: Post) -> str | None:
        if not post.user:
            return "a program"
        return None if post.user == self._people.owner else await self._server.name(post.user)

    # Outputs.

    async def _files(self, work: Work) -> None:
        """Put the long outputs of a turn's tools into the thread."""
        thread = self._ledger.thread(work.post.thread)
        if not self._config.output_chars or thread is None or thread.heard is None:
            return
        records = (await anyio.to_thread.run_sync(self._records, self._session(work)))[thread.heard.record :]
        long = [
            (f"{record.name}-{number}.txt", record.content)
            for number, record in enumerate(records)
            if isinstance(record, ToolResult) and len(record.content) > self._config.output_chars
        ]
        if thread.heard.post == work.post.id and long:
            await outputs(work.poster, long)


def _heard(post: Post, record: int, text: str) -> Heard:
    return Heard(post=post.id, at=post.at, record=record, digest=_digest(text))


def _with(thread: Thread, heard: Heard, earlier: list[Heard], read: tuple[int, str]) -> Thread:
    return Thread(
        channel=thread.channel,
        principal=thread.principal,
        owner=thread.owner,
        heard=heard,
        earlier=earlier,
        read=read,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_record(records: list[Record], heard: Heard) -> bool:
    record = records[heard.record] if heard.record < len(records) else None
    return isinstance(record, User) and _digest(record.text) == heard.digest


def _is_answered(records: list[Record]) -> bool:
    last = records[-1]
    return not isinstance(last, User | ToolResult) and not last.tool_calls
