"""What of a list of lines fits one frame: all of it whole, else the long ones cut; none is hidden by a longer one."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from proto.frame import MAX_FRAME

ROOM_BYTES: Final = MAX_FRAME - 4_096
"""What the lines of a reply may have: a frame without the reply's own map and keys."""
# Lists of entries within their limits, before and after an edit, are never longer.
_LEAST_SHARE_BYTES: Final = 20 << 10
_CUTS: Final = tuple((chars, items) for chars in (16_384, 4_096, 512, 64) for items in (100_000, 1_000, 100, 10))


def size_bytes(value: Any) -> int:
    """What a value of JSON takes in a frame."""
    return len(msgspec.msgpack.encode(value))


def fitting(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first lines, as many as fit a frame; where not all do, those longer than their share of it are cut."""
    sizes = [size_bytes(line) for line in lines]
    if sum(sizes) <= ROOM_BYTES:
        return list(lines)
    share = max(ROOM_BYTES // len(lines), _LEAST_SHARE_BYTES)
    found: list[dict[str, Any]] = []
    room = ROOM_BYTES
    for line, size in zip(lines, sizes, strict=True):
        shown = line if size <= share else cut(line, share)
        room -= size_bytes(shown)
        if room < 0:
            break
        found.append(shown)
    return found


def cut(line: dict[str, Any], room_bytes: int) -> dict[str, Any]:
    """The line with its long texts cut to `…` and their number of characters, and its long lists to how many more."""
    shown = line
    for chars, items in _CUTS:
        shown = {name: _cut(value, chars, items) for name, value in line.items()}
        if size_bytes(shown) <= room_bytes:
            break
    return shown


def _cut(value: Any, chars: int, items: int) -> Any:
    if isinstance(value, str) and len(value) > chars:
        return f"{value[:chars]}… ({len(value):,} characters)"
    if isinstance(value, list):
        shown = [_cut(item, chars, items) for item in value[:items]]
        return shown if len(value) <= items else [*shown, f"… ({len(value) - items:,} more)"]
    if isinstance(value, dict):
        return {name: _cut(item, chars, items) for name, item in value.items()}
    return value
