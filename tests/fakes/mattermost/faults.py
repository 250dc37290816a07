"""What can go wrong on purpose; a test turns it on and off while the server runs."""

from typing import Literal

ResetForm = Literal["seconds", "epoch"]


class Faults:
    """The switches. Those that count go down by themselves; the others stay until they are set back."""

    def __init__(self) -> None:
        self.refuse_token = False
        """REST says 401; a WebSocket is accepted, as by the real server, and closed unauthenticated."""
        self.refuse_upgrade = 0
        """The status with which an upgrade is refused, as a proxy before the server would; 0 for none."""
        self.answer_pings = True
        """Whether pings of WebSocket, and the action `ping`, are answered."""
        self.silent = False
        """Nothing is written on a WebSocket any more, which stays open: what would be sent is lost."""
        self.delay_s = 0.0
        """Before each answer over REST."""
        self.max_post_chars = 16_383
        self.max_file_bytes = 50 << 20
        self.frozen_ms: int | None = None
        """The time of what is made, in milliseconds since 1970, instead of the clock's."""
        self.failing, self.fail_status = 0, 500
        self.answering, self.answer_path, self.answer_status, self.answer_page = 0, "", 200, False
        self.limiting, self.limit_reset, self.limit_s = 0, "seconds", 1
        self.losing_answers = 0
        self.losing_requests = 0
        self.dropping = 0
        self.duplicating = 0
        self.holding = 0

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        vars(self).update(vars(Faults()))

    def fail_next(self, count: int, status: int = 500) -> None:
        """The next requests fail without any effect."""
        self.failing, self.fail_status = count, status

    def answer_next(self, count: int, path: str, status: int, *, page: bool) -> None:
        """The next requests whose path ends so get another answer: an error of the server, or a page of a proxy."""
        self.answering, self.answer_path, self.answer_status, self.answer_page = count, path, status, page

    def limit_next(self, count: int, reset: ResetForm = "seconds", seconds: int = 1) -> None:
        """The next requests are too many; `X-Ratelimit-Reset` in seconds left (the server) or as a time (its docs)."""
        self.limiting, self.limit_reset, self.limit_s = count, reset, seconds

    def lose_answer_next(self, count: int) -> None:
        """The next requests are done, and their connections reset before the answer."""
        self.losing_answers = count

    def lose_request_next(self, count: int) -> None:
        """The connections of the next requests are reset before anything is done."""
        self.losing_requests = count

    def drop_next(self, count: int) -> None:
        """The next events are lost on their way: their numbers are missing. They are sent again after a resume."""
        self.dropping = count

    def duplicate_next(self, count: int) -> None:
        """The next events come twice, under the same number."""
        self.duplicating = count

    def hold_next(self, count: int) -> None:
        """The next events come after those that follow them, when they are released."""
        self.holding = count

    def take(self, name: str) -> bool:
        """Whether one more of what is counted under a name happens."""
        left: int = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0
