"""The outbox: what was written comes out as it was, the oldest first, after a crash too; what is not whole does not."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egressd import outbox
from egressd.outbox import Body, Full, Outbox
from proto.labels import DataClass
from proto.messages.memory import KeepBegin
from proto.role import durable

HEADERS = [("content-type", "text/event-stream")]


def _begun(call: str) -> KeepBegin:
    return KeepBegin(
        kept="contexts", session="chat-a", call=call, domain="dom-me", class_=DataClass.PRIVATE, untrusted=True,
        observed_by="egress", time="2026-09-24T21:02:03Z", retention_days=30, context=None,
    )  # fmt: skip


def _bodies(*bodies: bytes) -> list[Body]:
    return [Body(f"part-{at}", at % 2 == 0, HEADERS, [body[:3], body[3:]]) for at, body in enumerate(bodies)]


def _out(found: Outbox) -> list[tuple[str, list[bytes]]]:
    """Everything in it, taken out."""
    taken = []
    while paths := found.oldest(1):
        (path,) = paths
        item = outbox.read(path)
        assert item is not None
        read = {part.name: b"" for part in item.parts}
        for name, offset, data in outbox.pieces(path, item):
            assert offset == len(read[name])
            read[name] += data
        taken.append((item.begun.call, list(read.values())))
        found.remove(paths)
    return taken


@settings(max_examples=30)
@given(st.lists(st.lists(st.binary(max_size=40), max_size=3), max_size=5), st.integers(0, 5))
def test_what_goes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, items: list[list[bytes]], start: int) -> None:
    folder = tmp_path_factory.mktemp("outbox")
    found = Outbox(folder, 1 << 20)
    for number, bodies in enumerate(items):
        if number == start:
            found = Outbox(folder, 1 << 20)
        found.write(_begun(f"c{number}"), _bodies(*bodies))
    assert len(found) == len(items)
    assert _out(found) == [(f"c{number}", bodies) for number, bodies in enumerate(items)]
    assert list(folder.iterdir()) == []


def test_pieces_of_a_long_body(tmp_path: Path) -> None:
    found = Outbox(tmp_path, 1 << 30)
    body = bytes(range(256)) * 5_000
    found.write(_begun("c"), _bodies(body, b""))
    assert _out(found) == [("c", [body, b""])]


def test_a_full_one_takes_nothing_more(tmp_path: Path) -> None:
    found = Outbox(tmp_path, 3_000)
    found.write(_begun("c1"), _bodies(b"x" * 1_000))
    with pytest.raises(Full):
        found.write(_begun("c2"), _bodies(b"x" * 2_000))
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]
    with pytest.raises(Full):
        Outbox(tmp_path, 1_000).write(_begun("c3"), _bodies(b"x"))
    assert _out(found) == [("c1", [b"x" * 1_000])]
    found.write(_begun("c4"), _bodies(b"x" * 2_000))


def test_what_is_not_whole_is_none(tmp_path: Path) -> None:
    found = Outbox(tmp_path, 1 << 20)
    found.write(_begun("c"), _bodies(b"body of it"))
    (path,) = found.oldest(1)
    assert path is not None
    data = path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        assert outbox.read(path) is None
    path.write_bytes(b"x" + data)
    assert outbox.read(path) is None
    (tmp_path / ".1-c.item.tmp").write_bytes(b"half")
    assert len(Outbox(tmp_path, 1 << 20)) == 1
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_disk_that_is_nearly_full_takes_no_more(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Outbox(home, 1000)
    found.write(_begun("c1"), _bodies(b"abcdef"))
    monkeypatch.setattr(durable, "LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(Full):
        found.write(_begun("c2"), _bodies(b"abcdef"))
    assert [call for call, _ in _out(found)] == ["c1"]
    assert list(home.iterdir()) == []
