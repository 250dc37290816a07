"""`bxctl context`: what it asks, what it shows, and that nothing raw reaches the terminal unless it is wanted."""

import gzip
import hashlib
from typing import Any

import msgspec
import pytest

from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.memory import (
    ContextAbout,
    KeptErase,
    KeptErased,
    KeptItem,
    KeptList,
    KeptListReply,
    KeptPart,
    KeptShow,
    KeptShowReply,
)
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes

ROW = "owner-memory"
SESSION = "chat-20260924-210203-0a1b2c"
BODIES = {
    "request": b'{"model":"m","messages":[{"content":"\xc3\xa9 \\u001b[31m"}]}',
    "response": b"data: {}\n\n\x1b[2J",
}


def _item(call: str = "model-1", *, headers: dict[str, str] | None = None, **fields: Any) -> KeptItem:
    made = KeptItem(
        kept="contexts", session=SESSION, call=call, domain="dom-me", class_=DataClass.PRIVATE, untrusted=True,
        observed_by="egress", time="2026-09-24T21:02:03Z", drop_after="2026-10-24T21:02:03Z", entries=["chat-b/0/1"],
        parts=[
            KeptPart(
                name=name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest(), whole=name == "request",
                headers=list((headers or {}).items()),
            )
            for name, data in BODIES.items()
        ],
        context=ContextAbout(
            turn=3, destination="scripted", auth="key", route="openai-chat", method="POST",
            path="/v1/chat/completions", status=200, model="scripted\x1b[1m",
        ),
        erased=None,
    )  # fmt: skip
    return msgspec.structs.replace(made, **fields)


def _showing(item: KeptItem, bodies: dict[str, bytes], piece_bytes: int = 7) -> Any:
    async def show(request: KeptShow, _: object) -> KeptShowReply:
        data = bodies[request.part][request.offset : request.offset + piece_bytes]
        end = request.offset + len(data)
        more = end < len(bodies[request.part])
        return KeptShowReply(item=item, data=data, next_offset=end if more else None)

    return show


def test_a_list_is_asked_for_page_by_page(bxctl: Bxctl, fakes: Fakes) -> None:
    items = [_item(f"model-{number:04}") for number in range(2_500, 0, -1)]

    async def page(request: KeptList, _: object) -> KeptListReply:
        rest = [
            one for one in items if request.before is None or f"{one.time} {one.session} {one.call}" < request.before
        ]
        page = rest[: min(request.last, 900)]
        return KeptListReply(items=page, more=len(rest) > len(page))

    fakes.answer(ROW, KeptList, page)
    with fakes.serving():
        everything = bxctl("context", "list", "-n", "5000", "--json").json
        shown = bxctl("context", "list", "-n", "1", "--session", SESSION)
    assert [one["call"] for one in everything["items"]] == [one.call for one in items]
    assert everything["more"] is False
    first, *_, last = fakes.asked
    assert (first.last, first.before, last.last, last.session) == (1_000, None, 1, SESSION)
    assert "model-2500" in shown.out and "private · untrusted" in shown.out and "2026-10-24 21:02" in shown.out
    assert "\x1b" not in shown.out and "scripted" in shown.out
    assert shown.out.splitlines()[-1].startswith("there are older ones; more with: bxctl ")


def test_an_empty_list_and_an_erased_one(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, KeptList, KeptListReply(items=[], more=False))
    with fakes.serving():
        assert bxctl("context", "list").out == "no model call is kept\n"
    fakes.answer(ROW, KeptList, KeptListReply(items=[_item(erased="retention", context=None)], more=False))
    with fakes.serving():
        assert "erased (retention)" in bxctl("context", "list").out


def test_raw_is_the_bytes_and_nothing_else(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, KeptShow, _showing(_item(), BODIES))
    with fakes.serving():
        for part, data in BODIES.items():
            assert bxctl("context", "show", SESSION, "model-1", "--part", part, "--raw").out.encode() == data


def test_shown_it_can_be_read_and_is_escaped(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, KeptShow, _showing(_item(headers={"content-type": "application/json"}), BODIES))
    with fakes.serving():
        result = bxctl("context", "show", SESSION, "model-1")
        one = bxctl("context", "show", SESSION, "model-1", "--part", "response").out
        as_json = bxctl("context", "show", SESSION, "model-1", "--json").json
    assert "\x1b" not in result.out
    assert (
        "turn 3 · POST /v1/chat/completions · 200\nto scripted (openai-chat, key) · scripted\\u{1b}[1m\n" in result.out
    )
    assert "private · untrusted · dom-me · observed by egress\nkept until 2026-10-24T21:02:03Z\n" in result.out
    assert "served until then: chat-b/0/1\n" in result.out
    assert "response: 14 bytes, not whole · sha256 " in result.out
    assert '\nrequest\ncontent-type: application/json\n{\n  "model": "m",\n' in result.out
    assert '"content": "é \\\\u001b[31m"' in result.out or '"content": "é \\u001b[31m"' in result.out
    assert "data: {}" in one and '"messages"' not in one
    assert as_json["call"] == "model-1"


@pytest.mark.parametrize(
    ("data", "encoding", "shown"),
    [
        (gzip.compress(b'{"a":1}'), "gzip", '{\n  "a": 1\n}'),
        (b"xyz", "gzip", "(3 bytes that cannot be decompressed; --raw gives them)"),
        (b"\xff\x00", "identity", "(2 bytes that are no text; --raw gives them)"),
        ("déjà".encode()[:-1], "identity", "déj"),
        (b"[" * 5_000, "identity", "[[[["),
    ],
    ids=["gzip", "no gzip", "no text", "cut", "deep"],
)
def test_bodies_of_other_kinds(bxctl: Bxctl, fakes: Fakes, data: bytes, encoding: str, shown: str) -> None:
    item = _item(headers={"content-encoding": encoding})
    fakes.answer(ROW, KeptShow, _showing(item, {"request": b"", "response": data}, 1 << 19))
    with fakes.serving():
        assert shown in bxctl("context", "show", SESSION, "model-1", "--part", "response").out


def test_what_is_erased_has_no_bodies(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, KeptShow, _showing(_item(erased="owner"), {"request": b"", "response": b""}))
    with fakes.serving():
        shown = bxctl("context", "show", SESSION, "model-1")
        raw = bxctl("context", "show", SESSION, "model-1", "--part", "request", "--raw")
    assert shown.code == 0 and "erased (owner)" in shown.out and "\nrequest\n" not in shown.out
    assert (raw.code, raw.out, raw.err) == (1, "", "bxctl: the bodies of this call were erased (owner)\n")


def test_erasing(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, KeptErase, KeptErased(items=2))
    with fakes.serving():
        assert bxctl("context", "erase", SESSION, "--yes").out == "erased: 2 contexts\n"
        assert bxctl("context", "erase", SESSION, "model-1", "--yes", "--json").json == {
            "kind": "kept_erased",
            "items": 2,
        }
        refused = bxctl("context", "erase", SESSION)
    assert (refused.code, "nobody is there to be asked; add --yes" in refused.err) == (2, True)
    assert [(one.session, one.call) for one in fakes.asked] == [(SESSION, None), (SESSION, "model-1")]


def test_what_is_not_there_is_a_sentence(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer(ROW, KeptShow, Fault("kept-unknown"))
    with fakes.serving():
        result = bxctl("context", "show", SESSION, "model-1")
    assert (result.code, result.err) == (1, "bxctl: nothing of that kind, session and call is kept\n")


@pytest.mark.parametrize(
    "words",
    [
        ["list", "--session", "x"],
        ["list", "-n", "0"],
        ["show", SESSION],
        ["show", SESSION, "é"],
        ["show", SESSION, "model-1", "--raw"],
        ["show", SESSION, "model-1", "--part", "other"],
        ["erase", "../x", "--yes"],
    ],
)
def test_a_wrong_line_is_exit_code_2(bxctl: Bxctl, words: list[str]) -> None:
    assert bxctl("context", *words).code == 2
