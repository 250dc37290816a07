"""The memory block of a new session's prompt, pure. It never alters an entry: it shows it whole, or leaves it out.

No entry that it shows can look like one of its headings: the check's rule 5 keeps those out.

Source: M5a section 4; contract, "The files of M5a".
"""

from collections.abc import Mapping, Sequence

from memoryd.identity.entries import FILES, SOUL_NAME, of, render, size

_EMPTY = "(empty)"


def render_block(soul: str, entries: Mapping[str, Sequence[str]], shown: Mapping[str, Sequence[str]]) -> str:
    """The block: `entries` of each file give its size, `shown` are those of them that passed the check."""
    parts = [f"# {SOUL_NAME}\n{soul or _EMPTY}"]
    for key, kind in FILES.items():
        parts.append(f"# {kind.name} ({of(size(entries[key]), kind.limit_chars)})\n{render(shown[key]) or _EMPTY}")
    return "\n\n".join(parts)


def over_limit(chars: int, limit_chars: int) -> str | None:
    """Why a file of this size cannot be served, or None."""
    return f"it is over its limit: {of(chars, limit_chars)}" if chars > limit_chars else None
