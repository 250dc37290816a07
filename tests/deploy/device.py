"""The box on a host with Mattermost beside it: the owner talks with it in threads, as from a telephone.

Features: Mattermost named as `docs/mattermost.md` says, its commands and tables taken from that page; threads in which the
owner asks and the model answers by a script; what each thread must hold, kept over all that happens to the host.
"""

import contextlib
import re
import textwrap
from collections.abc import Iterator
from typing import Final

from tests.deploy.boxed import Boxed, installed
from tests.fakes.mattermost import FakeMattermost
from tests.fakes.mattermost.state import Map
from tests.fakes.mattermost.thread import asked, said
from tests.fakes.model import FakeModel, Reply
from tests.shape import tree

GUIDE: Final = tree.ROOT / "docs" / "mattermost.md"
_FILES: Final = ("grants.toml", "config/loopd.toml")
"""Into which the tables of the guide go, in their order."""
_COUNT: Final = "import sys; from boxmaker_model.tokens import count_tokens; print(count_tokens(sys.stdin.read()))"


class Device:
    """The host and the server; `answers` are what the bot shall have said in each thread, by its first post's id."""

    def __init__(self, boxed: Boxed) -> None:
        self.boxed = boxed
        self.server = FakeMattermost()
        self.answers: dict[str, list[str]] = {}
        self._listening = contextlib.ExitStack()

    @property
    def model(self) -> FakeModel:
        """The model that answers now."""
        return self.boxed.model

    def serve(self) -> None:
        """Serve Mattermost in the host's network; again after each boot, at the same address and with all that it knows."""
        self.close()
        with self.boxed.host.network():
            self._listening.enter_context(self.server)

    def close(self) -> None:
        """Serve no more."""
        self._listening.close()

    def name_mattermost(self) -> None:
        """Do what the guide says."""
        self.boxed.host.put(f"{tree.ROOT}/token.txt", self.server.bot_token)
        text = GUIDE.read_text(encoding="utf-8")
        part = text[text.index("## Setting it up") : text.index("## The rights")]
        files = iter(_FILES)
        for kind, found in re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL):
            block = textwrap.dedent(found)
            if kind == "sh":
                self.boxed.follow(block)
                continue
            for placeholder, name in (
                ("https://chat.example.org", self.server.url),
                ("your26characteruseridhere0", self.server.owner["id"]),
                ("@you", "@owner"),
            ):
                block = block.replace(placeholder, name)
            self.boxed.edit(next(files), block)
        assert next(files, None) is None
        self.connected()

    def connected(self) -> None:
        """Wait until the box listens."""
        self.server.wait(lambda: self.server.connected, 20)

    def say(self, text: str, root: Map | None = None) -> Map:
        """The owner says something; the thread's first post."""
        post = self.server.say(self.server.owner, self.server.dm, text, root)
        return root or post

    def said(self, root: Map) -> list[str]:
        """What the bot says in a thread."""
        return said(self.server, root)

    def asked(self, text: str, *replies: Reply, root: Map | None = None, answer: str = "done") -> Map:
        """Say something, to which the model gives these replies and then the answer; the thread's first post."""
        self.model.script = [*replies, {"text": answer}]
        first = asked(self.server, text, root, answer)
        self.answers.setdefault(first["id"], []).append(answer)
        return first

    def answered(self, root: Map, *answers: str) -> None:
        """Wait until the thread has further answers, and nothing else that is new."""
        expected = self.answers.setdefault(root["id"], [])
        expected += answers
        with contextlib.suppress(AssertionError):
            self.server.wait(lambda: self.said(root) == expected, 30)
        assert (there := self.said(root)) == expected, f"{there} is in the thread, not {expected}"

    def check(self) -> None:
        """See that every thread has each of its answers once."""
        for root in self.answers:
            self.answered({"id": root})

    def bxctl(self, *words: str) -> str:
        """A command of the owner's; what it wrote."""
        return self.boxed.host.run("bxctl", *words).stdout

    def memory(self, name: str) -> str:
        """A file of memory."""
        return (self.boxed.home / "memory" / name).read_text()

    def count_tokens(self, text: str) -> int:
        """The number of the embedded model's tokens in a text, counted on the host."""
        counted = self.boxed.host.run("/opt/boxmaker/bin/python", "-I", "-c", _COUNT, given=text).stdout
        return int(counted.splitlines()[-1])


@contextlib.contextmanager
def talking() -> Iterator[Device]:
    """A host on which both guides were followed."""
    with installed() as boxed, contextlib.closing(Device(boxed)) as device:
        device.serve()
        device.name_mattermost()
        yield device
