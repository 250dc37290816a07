"""Items of kept material, made up, and a holding with its inbox."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from memoryd.kept import Holding, Inbox
from proto.labels import DataClass
from proto.messages.memory import ContextAbout, KeepBegin, KeptItem, KeptPart

CONTEXT = ContextAbout(
    turn=1, destination="scripted", auth="key", route="openai-chat", method="POST", path="/v1/chat/completions",
    status=200, model="scripted-1",
)  # fmt: skip
BODIES = {"request": b'{"model":"scripted-1"}', "response": b"data: {}\n\n"}


def begin(call: str = "c1", *, session: str = "chat-a", days: int = 30, **fields: Any) -> KeepBegin:
    """What an item begins with."""
    given: dict[str, Any] = {
        "kept": "contexts", "session": session, "call": call, "domain": "dom-me", "class_": DataClass.PRIVATE,
        "untrusted": False, "observed_by": "egress", "time": "2026-09-24T21:02:03Z", "retention_days": days,
        "context": CONTEXT,
    }  # fmt: skip
    return KeepBegin(**{**given, **fields})


def part(name: str, data: bytes, *, whole: bool = True) -> KeptPart:
    """A part as it is told of at the end."""
    return KeptPart(name=name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), whole=whole)


def parts(bodies: dict[str, bytes]) -> list[KeptPart]:
    """The parts of some bodies."""
    return [part(name, data) for name, data in bodies.items()]


def item(
    call: str = "c1",
    *,
    session: str = "chat-a",
    time: str = "2026-09-24T21:02:03Z",
    drop_after: str = "2026-10-24T21:02:03Z",
    bodies: dict[str, bytes] = BODIES,
    **fields: Any,
) -> KeptItem:
    """An item as it is put."""
    made = KeptItem(
        kept="contexts", session=session, call=call, domain="dom-me", class_=DataClass.PRIVATE, untrusted=False,
        observed_by="egress", time=time, drop_after=drop_after, entries=["chat-a/0/1"], parts=parts(bodies),
        context=CONTEXT, erased=None,
    )  # fmt: skip
    return msgspec.structs.replace(made, **fields)


class Store:
    """A holding and its inbox in a home."""

    def __init__(self, home: Path) -> None:
        self.record = home / "record"
        self.holding, self.inbox = Holding(self.record), Inbox(self.record)
        self.holding.open()
        self.inbox.open()

    def taken_up(self) -> "Store":
        """The list made."""
        self.holding.take_up()
        return self

    def hand_over(self, made: KeptItem, bodies: dict[str, bytes] = BODIES) -> bool:
        """Put an item the whole way: piece by piece, then to its place."""
        handle = self.inbox.begin(begin(made.call, session=made.session))
        for name, data in bodies.items():
            self.inbox.piece(handle, name, 0, data)
        return self.holding.put(made, self.inbox.take(handle, parts(bodies)).paths)

    def listed(self) -> list[KeptItem]:
        """All decision contexts, newest first."""
        return self.holding.newest("contexts", None, 10**6, None)

    def files(self) -> list[str]:
        """Every file of the record."""
        return sorted(str(path.relative_to(self.record)) for path in self.record.rglob("*") if path.is_file())

    def check(self) -> None:
        """The laws: an item has all its bodies or, erased, none; and there is nothing else."""
        expected = []
        for one in self.listed():
            at = f"{one.domain}/.{one.kept}/{one.session}/{one.call}"
            expected.append(f"{at}.json")
            for said in one.parts:
                data = self.holding.read(one, said.name, 0, 1 << 30)
                assert data == b"" if one.erased else hashlib.sha256(data).hexdigest() == said.sha256
                expected += [] if one.erased else [f"{at}.{said.name}"]
        assert self.files() == sorted(expected)
