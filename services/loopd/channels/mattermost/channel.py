"""All of it put together: one WebSocket after the other, the feed, the threads."""

import json
import random
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc

from loopd.channels.mattermost import feed as feeds
from loopd.channels.mattermost import link as links
from loopd.channels.mattermost.asked import Asked
from loopd.channels.mattermost.feed import OVERLAP_MS, Feed
from loopd.channels.mattermost.ledger import Ledger
from loopd.channels.mattermost.link import Link
from loopd.channels.mattermost.posts import Post, reaction_of, user_of
from loopd.channels.mattermost.server import CallRefused, Server, is_passing, wait_of
from loopd.channels.mattermost.threads import Threads
from loopd.channels.mattermost.turns import Parts, Turns
from loopd.channels.mattermost.whom import People
from loopd.config import Mattermost
from loopd.conversations import Conversations
from loopd.ports.broker import BrokerPort
from loopd.ports.mattermost import Gone, MattermostPort, Message, Refused, Socket
from proto.faults import Fault
from proto.messages.loop import ChannelState
from proto.role.log import logger

SESSIONS: Final = "mm-"
"""How the ids of this channel's sessions begin."""
_HELLO: Final = "hello"
_TIDY_SECONDS: Final = 20.0


class Channel:
    """Mattermost, while loopd runs."""

    def __init__(
        self,
        config: Mattermost,
        port: MattermostPort,
        folder: Path,
        conversations: Conversations,
        broker: BrokerPort,
    ) -> None:
        self._config = config
        self._port = port
        self._ledger = Ledger(folder)
        self._conversations = conversations
        self._broker = broker
        self._server = Server(port, config.reconnect_most_s)
        self._moved = anyio.Event()
        self._socket: Socket | None = None
        self._listening: anyio.CancelScope | None = None
        self._trouble: tuple[str, str | None] | None = ("it has not connected yet", None)

    def state(self) -> ChannelState:
        """How it is now, for the owner."""
        why, runbook = (None, None) if self._trouble is None else self._server.waiting or self._trouble
        return ChannelState(channel="mattermost", why=why, runbook=runbook)

    async def run(self) -> None:
        """Run until cancelled, and leave the rest of loopd alone.

        What the owner can mend without a restart (a token, a right) is tried again. After a fault of its own the
        channel begins again, as after a crash: the ledger says where.
        """
        while True:
            try:
                await self._serve()
            except CallRefused as refused:
                self._trouble = str(refused), "mattermost-refused"
                logger().error("mattermost-refused", why=str(refused), runbook="mattermost-refused")
            except Fault as fault:
                self._trouble = fault.message, fault.runbook
                logger().error("mattermost-not-started", why=fault.message, runbook=fault.runbook)
                return
            except Exception:  # noqa: BLE001  (one post that trips the channel must not end the terminal's sessions)
                self._trouble = "it failed, and begins again", "internal"
                logger().exception("mattermost-failed")
            await anyio.sleep(self._config.reconnect_most_s)

    async def _serve(self) -> None:
        people = await self._people()
        limit = await self._server.limit()
        began = self._ledger.began(await self._server.now_ms())
        self._feed = Feed(people.me, began, self._ledger.channels())
        self._link = Link(self._config.reconnect_most_s, self._config.ping_s, random.random)
        self._asked = Asked(people.owner)
        parts = Parts(
            self._server,
            self._ledger,
            self._conversations.store,
            self._conversations,
            self._broker,
            self._asked,
            people,
            self._config,
            limit,
        )
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._threads = Threads(tasks, Turns(parts), parts, self._settle)
            tasks.start_soon(self._tidy)
            await self._keep_linked()

    async def _people(self) -> People:
        me, name = await self._server.me()
        config = self._config
        return People(
            me=me,
            name=name,
            owner=await self._user(config.owner or ""),
            users=frozenset([await self._user(user) for user in config.users]),
            channels=frozenset(config.channels),
            answer=config.answer,
            answer_owner=config.answer_owner,
        )

    async def _user(self, name: str) -> str:
        """Whom the settings name.

        Raises:
            Fault: `config-invalid`: another user has the name now. Anybody may take one that is free, so that it would
                make him the owner.

        """
        user = await self._server.user(name)
        if name.startswith("@") and (meant := self._ledger.whom(name, user)) != user:
            raise Fault(
                "config-invalid", f"mattermost: {name} is the user {user} now, and was {meant}; name him by his id"
            )
        return user

    # The link.

    async def _keep_linked(self) -> None:
        while True:
            await self._linked(links.Tick())
            self._moved = anyio.Event()
            with anyio.move_on_after(max(0.0, self._link.deadline - anyio.current_time())):
                # Another event may have brought the deadline nearer.
                await self._moved.wait()

    async def _linked(self, event: links.Event) -> None:
        commands = self._link.handle(event, anyio.current_time())
        self._moved.set()
        for command in commands:
            match command:
                case links.Connect():
                    self._tasks.start_soon(self._listen)
                case links.Ping():
                    # A send can wait for ever on a connection that is half open: the next tick must come all the same.
                    self._tasks.start_soon(self._ping)
                case links.Drop(why):
                    self._trouble = why, "mattermost-unreachable"
                    logger().warning("mattermost-broken", why=why, runbook="mattermost-unreachable")
                    self._feed.broken()
                    if self._listening is not None:
                        self._listening.cancel()

    async def _ping(self) -> None:
        if self._socket is not None:
            try:
                await self._socket.ping()
            except Gone:
                # The one who reads sees it too.
                return

    async def _listen(self) -> None:
        """One connection, to its end."""
        with anyio.CancelScope() as scope:
            self._listening = scope
            try:
                await self._hear(await self._port.socket())
            except Gone as gone:
                await self._broken(str(gone), None)
            except Refused as refused:
                rest_s = wait_of(refused.reply, self._server.wall())
                if not is_passing(refused.reply) or refused.reply.status == 401:
                    # Only the owner can mend this: there is no hurry.
                    rest_s = self._config.reconnect_most_s
                await self._broken(str(refused), rest_s, "mattermost-refused")

    async def _hear(self, socket: Socket) -> None:
        self._socket = socket
        try:
            await self._linked(links.Opened())
            async for event in socket.events():
                await self._came(event)
        finally:
            await socket.close()
            if self._socket is socket:
                self._socket = None

    async def _broken(self, why: str, rest_s: float | None, runbook: str = "mattermost-unreachable") -> None:
        self._trouble = why, runbook
        logger().warning("mattermost-broken", why=why, runbook=runbook)
        self._feed.broken()
        await self._linked(links.Broken(why, rest_s))

    async def _came(self, event: Any) -> None:
        untrusted = _json(event.text) if isinstance(event, Message) else None
        name = untrusted.get("event") if isinstance(untrusted, dict) else None
        await self._linked(links.Heard(hello=name == _HELLO))
        if not isinstance(untrusted, dict) or not isinstance(name, str):
            return
        data, seq = untrusted.get("data"), untrusted.get("seq")
        data = data if isinstance(data, dict) else {}
        seq = seq if isinstance(seq, int) else 0
        if name == _HELLO:
            self._trouble = None
            logger().info("mattermost-connected", connection=str(data.get("connection_id", "")))
            self._fed(feeds.Hello(str(data.get("connection_id", "")), seq))
            for question in self._asked.open():
                self._tasks.start_soon(self._look, question.post)
        else:
            if name == "user_updated" and (user := user_of(data.get("user"))) is not None and user.id == self._feed.me:
                self._threads.renamed(user.name)
            self._fed(feeds.Told(seq, name, data, ""))

    async def _look(self, post: str) -> None:
        """See how a question was answered while nobody listened."""
        if not post:
            return
        try:
            found = await self._server.reactions(post)
        except CallRefused:
            return
        for row in found:
            if (reaction := reaction_of(row)) is not None:
                self._threads.reacted(reaction)

    # The feed.

    def _settle(self, post: Post, kept: bool) -> None:
        self._fed(feeds.Settled(post.channel, post.id, kept))

    async def _tidy(self) -> None:
        while True:
            await anyio.sleep(_TIDY_SECONDS)
            self._do(self._feed.tidy())

    def _fed(self, event: feeds.Event) -> None:
        self._do(self._feed.handle(event))

    def _do(self, commands: list[feeds.Command]) -> None:
        for command in commands:
            match command:
                case feeds.ListChannels():
                    self._tasks.start_soon(self._list)
                case feeds.Read():
                    self._tasks.start_soon(self._read, command)
                case feeds.Hand():
                    self._threads.hand(command)
                case feeds.Edited(post):
                    self._threads.edited(post)
                case feeds.Deleted(post):
                    self._threads.deleted(post)
                case feeds.Reacted(reaction):
                    self._threads.reacted(reaction)
                case feeds.Keep(channel, kept):
                    try:
                        self._ledger.keep(channel, kept)
                    except Fault as fault:
                        # What is not kept is read again and found answered; the next word of this channel keeps it.
                        logger().error("mattermost-not-kept", why=fault.message, runbook="mattermost-ledger")

    async def _list(self) -> None:
        """Tell which channels there are; nothing that is said is handled before."""
        generation = self._feed.generation
        while generation == self._feed.generation:
            try:
                # While nobody listened it may have got another name, by which it was called.
                _, name = await self._server.me()
                self._threads.renamed(name)
                self._fed(feeds.Listed(await self._server.channels(self._feed.me)))
            except CallRefused as refused:
                logger().error("mattermost-refused", why=str(refused), runbook="mattermost-refused")
                await anyio.sleep(self._config.reconnect_most_s)
            else:
                return

    async def _read(self, read: feeds.Read) -> None:
        """Read a page, for as long as it is wanted: a channel that was not read must not count as read."""
        while read.generation == self._feed.generation:
            try:
                self._fed(await self._page(read))
            except CallRefused as refused:
                # The bot may be in it no more, which the next list of channels says.
                logger().warning("mattermost-channel-refused", channel=read.channel, why=str(refused))
                await anyio.sleep(self._config.reconnect_most_s)
            else:
                return

    async def _page(self, read: feeds.Read) -> feeds.Page:
        """A page; where the post to begin after is gone, one from its time on."""
        try:
            posts, more = await self._server.page(read)
        except CallRefused as refused:
            if refused.status != 404 or not read.after:
                raise
            posts, more = (), False
        if read.after and not read.page and not posts:
            # The newest posts are always beyond the mark. A post that was erased for good is no place to begin.
            read = read._replace(after="", since=read.since - OVERLAP_MS)
            posts, more = await self._server.page(read)
        return feeds.Page(read, posts, more)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
