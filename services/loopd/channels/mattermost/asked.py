"""What waits for the owner in a thread, and who may answer it; pure.

An answer counts once, from the owner, while the question stands. Any other is ignored, and audited with its reason.
"""

from typing import Final, Literal, NamedTuple

from loopd.channels.mattermost.whom import Order

_KEPT: Final = 1000
"""So many questions are remembered that were answered, to tell a late answer from words to the model."""
Why = Literal["foreign", "repeated", "late"]
"""Why an answer does not count."""


class Question(NamedTuple):
    """An approval that was asked for in a thread, in the post `post` (or "" while it is being made), at its time."""

    approval: str
    thread: str
    post: str
    at: int = 0


class Asked:
    """All questions of the box's threads."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._questions: dict[str, Question] = {}
        self._answered: set[str] = set()
        self._closed: set[str] = set()

    def ask(self, question: Question) -> None:
        """A question is put."""
        self._questions[question.approval] = question
        while len(self._questions) > _KEPT:
            oldest = next(iter(self._questions))
            del self._questions[oldest]
            self._answered.discard(oldest)
            self._closed.discard(oldest)

    def put(self, approval: str, post: str, at: int) -> None:
        """The post of a question stands in its thread."""
        if (question := self._questions.get(approval)) is not None:
            self._questions[approval] = question._replace(post=post, at=at)

    def is_being_put(self, thread: str) -> bool:
        """Whether a question waits whose post is not known yet: a word may be older than it, or its answer."""
        return any(question.thread == thread and not question.post for question in self.open())

    def again(self, approval: str) -> None:
        """The answer that was taken did not arrive: another may be given."""
        self._answered.discard(approval)

    def close(self, approval: str) -> None:
        """The call was decided, or its turn is over: an answer that comes now is late."""
        self._closed.add(approval)

    def open(self) -> list[Question]:
        """The questions that wait."""
        gone = self._answered | self._closed
        return [question for approval, question in self._questions.items() if approval not in gone]

    def of_post(self, post: str) -> Question | None:
        """The question of a post."""
        return next((question for question in self._questions.values() if question.post == post), None)

    def of_thread(self, thread: str, at: int) -> Question | None:
        """The question that a word of a time answers in a thread: the one that waits, else the last one.

        A question that was put after the word was written is not what it answers, whenever the word is told of.
        """
        mine = [question for question in self._questions.values() if question.thread == thread and question.at <= at]
        waiting = [question for question in self.open() if question in mine]
        found = waiting or mine
        return found[-1] if found else None

    def answer(self, question: Question, user: str) -> Why | None:
        """Why an answer does not count; None if it does, which it does once."""
        if user != self._owner:
            return "foreign"
        if question.approval in self._answered:
            return "repeated"
        if question.approval in self._closed:
            return "late"
        self._answered.add(question.approval)
        return None


def allows(order: Order) -> bool:
    """Whether an order is a yes; `stop` and `deny` are none."""
    return order is Order.APPROVE
