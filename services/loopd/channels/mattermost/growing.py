"""The posts that an answer is to become, while the model still speaks; pure.

`wanted` says what should stand in the thread now, `Growing.next` the one call that brings it nearer. A text that grows
is posted at its first words, then changed at most once in `every_s`; what is final is brought about at once.
"""

from typing import Final, NamedTuple

from loopd.channels.mattermost.division import divide

ELSEWHERE: Final = "…"
"""Stands in a post of a draft that the final answer does not need."""
_TOOL_CHARS: Final = 60


class Create(NamedTuple):
    """Make the post of a part, numbered from 1."""

    part: int
    text: str


class Edit(NamedTuple):
    """Give a post another text."""

    part: int
    post: str
    text: str


class _Posted(NamedTuple):
    post: str
    text: str


class Growing:
    """The posts of one turn's answer."""

    def __init__(self, limit: int, every_s: float) -> None:
        self._limit = limit
        self._every_s = every_s
        self._posted: dict[int, _Posted] = {}
        self._words: list[str] = []
        self._doing = ""
        self._final: str | None = None
        self._next_s = 0.0
        self._kept = 0
        """So many posts stay as they are: the answer is in those behind them."""
        self.is_stuck = False

    @property
    def is_over(self) -> bool:
        """Whether the final form stands in the thread."""
        return self._final is not None and self._step() is None

    def restart(self) -> None:
        """The turn begins again: what the model said until now counts no more."""
        self._words, self._doing = [], ""

    def say(self, words: str) -> None:
        """More words of the model."""
        self._words.append(words)
        self._doing = ""

    def do(self, tool: str) -> None:
        """A tool runs: what the model said until now is no answer yet."""
        self._words = ["".join(self._words).rstrip(), "\n\n"] if self._words else []
        self._doing = f"*{tool[:_TOOL_CHARS]} …*"

    def end(self, text: str) -> None:
        """The whole answer, or what is said in its place."""
        self._final = text

    def found(self, part: int, post: str, text: str) -> None:
        """A post of this answer is in the thread already."""
        self._posted[part] = _Posted(post, text)

    def made(self, step: Create | Edit, post: str, now_s: float) -> None:
        """A step was done."""
        self._posted[step.part] = _Posted(post, step.text)
        self._next_s = now_s + self._every_s

    def stuck(self) -> None:
        """A post takes no other text: it stays as it is, and the final form, once it is there, goes into new ones.

        Until then nothing more is posted, or a server that takes no edit at all would get a post for each.
        """
        self.is_stuck = True
        there = [self._posted[number].text for number in sorted(self._posted)]
        parts = self._parts()
        # After a crash it may stand behind such posts already.
        begins = (begin for begin in range(len(there)) if there[begin : begin + len(parts)] == parts)
        self._kept = next(begins, len(there))

    def later(self, until_s: float) -> None:
        """The server takes nothing before a time."""
        self._next_s = max(self._next_s, until_s)

    def next(self) -> Create | Edit | None:
        """The next step, None when there is none."""
        return self._step()

    def wait_s(self, now_s: float) -> float:
        """How long the next step has to wait still; a final one does not wait for the pace of the others."""
        return 0.0 if self._final is not None else max(0.0, self._next_s - now_s)

    def _wanted(self) -> str:
        if self._final is not None:
            return self._final
        return f"{''.join(self._words).strip()}\n\n{self._doing}".strip()

    def _parts(self) -> list[str]:
        wanted = self._wanted()
        return [part.text for part in divide(wanted, self._limit)] if wanted else []

    def _step(self) -> Create | Edit | None:
        parts = self._parts()
        if not parts or (self.is_stuck and self._final is None):
            return None
        for number, text in enumerate(parts, self._kept + 1):
            posted = self._posted.get(number)
            if posted is None:
                return Create(number, text)
            if posted.text != text:
                return Edit(number, posted.post, text)
        for number in sorted(self._posted):
            posted = self._posted[number]
            if number > self._kept + len(parts) and posted.text != ELSEWHERE and self._final is not None:
                return Edit(number, posted.post, ELSEWHERE)
        return None
