"""The posts of each thread one after the other, in the order of their times; several threads at once."""

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import anyio
import anyio.abc

from loopd.channels.mattermost.asked import Question, Why, allows
from loopd.channels.mattermost.feed import Hand
from loopd.channels.mattermost.posts import Post, Reaction
from loopd.channels.mattermost.turns import Parts, Turns, Work
from loopd.channels.mattermost.whom import Order, is_answered, is_heard, is_written, order_of_emoji, order_of_text
from proto.faults import Fault
from proto.messages.broker import ApprovalAnswer, ApprovalIgnored
from proto.role.log import logger

_TRIES_AGAIN: Final = 2
_EARLY: Final = 100
"""So many reactions on posts that are no question are remembered."""
Settle = Callable[[Post, bool], None]
"""Told of a post of which all is done, and whether that must be remembered."""


class _Lane:
    """One thread: the posts that wait, those of them that are old (`Hand.is_old`), and the one that is worked on."""

    def __init__(self) -> None:
        self.waiting: dict[str, Post] = {}
        self.old: set[str] = set()
        self.work: Work | None = None
        self.stopping = False


class Threads:
    """All threads that have something to do."""

    def __init__(self, tasks: anyio.abc.TaskGroup, turns: Turns, parts: Parts, settle: Settle) -> None:
        self._tasks = tasks
        self._turns = turns
        self._ledger = parts.ledger
        self._conversations = parts.conversations
        self._broker = parts.broker
        self._asked = parts.asked
        self._people = parts.people
        self._settle = settle
        self._rest_s = parts.config.reconnect_most_s
        self._limiter = anyio.CapacityLimiter(parts.config.turns_at_once)
        self._auditing = anyio.Lock()
        self._lanes: dict[str, _Lane] = {}
        self._early: deque[Reaction] = deque(maxlen=_EARLY)
        self._read: dict[str, tuple[int, str]] = {}
        """Threads, and up to which post all is known to be in the log, or not to belong there."""
        self._others: dict[str, tuple[int, str]] = {}
        """The newest post of such a thread that gets no answer: the next one that gets one has it read before."""
        self._words: dict[str, list[Hand]] = {}
        """Yes and no in threads whose question has no post yet that is known."""

    def renamed(self, name: str) -> None:
        """The bot is called by this name now."""
        self._people = self._people._replace(name=name)

    def hand(self, handed: Hand) -> None:
        """Handle a post, once."""
        post, direct, is_old = handed
        order = order_of_text(post.text)
        if order is not None and is_written(self._people, post):
            if order is not Order.STOP and self._asked.is_being_put(post.thread):
                self._words.setdefault(post.thread, []).append(handed)
                return
            if self._is_order(order, post):
                self._settle(post, True)
                return
        if not is_heard(self._people, post):
            if post.user != self._people.me:
                self._unanswered(post)
            self._settle(post, False)
            return
        try:
            thread = self._ledger.thread(post.thread)
        except Fault as fault:
            # This thread alone is silent; the next start tries it again.
            logger().error("mattermost-not-read", thread=post.thread, why=fault.message, runbook=fault.runbook)
            return
        in_work = thread is not None and thread.heard is not None and thread.heard.post == post.id
        begun = thread is not None or post.thread in self._lanes
        if not in_work and not is_answered(self._people, post, direct=direct, begun=begun):
            self._unanswered(post)
            self._settle(post, True)
            return
        lane = self._lanes.get(post.thread)
        if lane is None:
            lane = self._lanes[post.thread] = _Lane()
            self._tasks.start_soon(self._run, post.thread, lane)
        lane.waiting[post.id] = post
        if is_old:
            lane.old.add(post.id)

    def _unanswered(self, post: Post) -> None:
        if post.thread in self._read or post.thread in self._lanes:
            self._others[post.thread] = max(post.order, self._others.get(post.thread, post.order))

    def edited(self, post: Post) -> None:
        """Take the owner's edit of a post that is not answered yet."""
        lane = self._lanes.get(post.thread)
        if lane is None or post.user != self._people.owner or not post.text.strip():
            return
        if post.id in lane.waiting:
            lane.waiting[post.id] = post
        elif lane.work is not None and lane.work.post.id == post.id and lane.work.post.text != post.text:
            lane.work.edited = post
            self._stop(post.thread)

    def deleted(self, post: Post) -> None:
        """Forget a post that waits."""
        lane = self._lanes.get(post.thread)
        if lane is not None and (gone := lane.waiting.pop(post.id, None)):
            self._settle(gone, True)

    def reacted(self, reaction: Reaction) -> None:
        """Take a reaction that is an order."""
        order = order_of_emoji(reaction.emoji)
        if order is None or reaction.user == self._people.me:
            return
        question = self._asked.of_post(reaction.post)
        if order is Order.STOP:
            roots = [root for root, lane in self._lanes.items() if lane.work and reaction.post in lane.work.posts]
            for root in roots:
                if reaction.user == self._people.owner:
                    self._stop_lane(root)
        elif question is not None:
            self._answer(question, reaction.user, order)
        else:
            self._early.append(reaction)

    def _questioned(self, post: str) -> None:
        """A question's post is known: a reaction may have been told of before the server's answer to its making."""
        for reaction in [one for one in self._early if one.post == post]:
            self._early.remove(reaction)
            self.reacted(reaction)
        if (question := self._asked.of_post(post)) is not None:
            self._take_words(question.thread)

    def _waits(self, more: int) -> None:
        """Let other threads be worked on instead of one that waits for the owner, which may be for an hour."""
        self._limiter.total_tokens += more

    def _take_words(self, root: str) -> None:
        for handed in self._words.pop(root, []):
            self.hand(handed)

    # Orders.

    def _is_order(self, order: Order, post: Post) -> bool:
        """Do what a word says, if it says it to somebody; else it is a post like any other."""
        if order is Order.STOP:
            if post.thread not in self._lanes or post.user != self._people.owner:
                return False
            self._stop_lane(post.thread)
            return True
        question = self._asked.of_thread(post.thread, post.at)
        if question is None:
            return False
        self._answer(question, post.user, order)
        return True

    def _stop_lane(self, root: str) -> None:
        lane = self._lanes[root]
        lane.stopping = lane.work is None
        if lane.work is not None:
            lane.work.stopping = True
        self._stop(root)

    def _stop(self, root: str) -> None:
        try:
            self._conversations.stop(f"mm-{root}")
        except Fault:
            # The session is not there yet; the turn is stopped when it opens.
            return

    def _answer(self, question: Question, user: str, order: Order) -> None:
        why = self._asked.answer(question, user)
        if why is None:
            self._tasks.start_soon(self._hand_on, question, user, order)
        else:
            self._ignored(question, user, why)

    async def _hand_on(self, question: Question, user: str, order: Order) -> None:
        answer = ApprovalAnswer(approval=question.approval, allow=allows(order), by=f"mattermost {user}")
        try:
            await self._broker.answer(answer)
        except Fault as fault:
            if fault.code == "brokerd-unreachable":
                # It can be given again once brokerd is back.
                self._asked.again(question.approval)
            logger().warning("approval-not-answered", approval=question.approval, by=user, code=fault.code)

    def _ignored(self, question: Question, user: str, why: Why) -> None:
        session = f"mm-{question.thread}"
        logger().warning("approval-answer-ignored", approval=question.approval, session=session, by=user, why=why)
        by = f"mattermost {user}"
        ignored = ApprovalIgnored(session=session, approval=question.approval, by=by, why=why)
        self._tasks.start_soon(self._audit, ignored)

    async def _audit(self, ignored: ApprovalIgnored) -> None:
        # One after the other: whoever reacts a thousand times must not take brokerd's connections from the tools.
        async with self._auditing:
            await self._broker.ignored(ignored)

    # Lanes.

    async def _run(self, root: str, lane: _Lane) -> None:
        """Work on what waits in a thread until nothing does."""
        failures: Counter[str] = Counter()
        async with self._limiter:
            while lane.waiting:
                post = min(lane.waiting.values(), key=lambda one: one.place)
                del lane.waiting[post.id]
                lane.work = work = self._turns.work(post, self._questioned, self._waits)
                work.stopping, lane.stopping = lane.stopping, False
                done, lane.work = await self._work(root, work, is_old=post.id in lane.old), None
                self._take_words(root)
                if done:
                    self._settle(post, True)
                    lane.old.discard(post.id)
                elif failures[post.id] < _TRIES_AGAIN:
                    failures[post.id] += 1
                    lane.waiting.setdefault(post.id, work.edited or work.post)
                    await anyio.sleep(self._rest_s)
            # In the same breath as the last look: a post that comes now finds no lane, and makes one.
            del self._lanes[root]

    async def _work(self, root: str, work: Work, *, is_old: bool) -> bool:
        read = self._read.pop(root, None)
        try:
            if is_old and await self._turns.was_answered(work):
                # It stands in the thread and not in the log, so that the next post has it read before.
                return True
            await self._turns.run(self._tasks, work, read_before=read is None or self._others.get(root, read) > read)
            if work.is_heard:
                self._read[root] = work.post.order
        except Exception:  # noqa: BLE001  (one post must not keep the others from being answered)
            # It is not done with: it is tried again, and by the next start after that.
            logger().exception("mattermost-post-failed", session=f"mm-{root}", post=work.post.id)
            return False
        return True
