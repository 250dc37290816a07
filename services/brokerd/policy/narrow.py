"""What of an input the modules in force can read: the engine is given that and no more.

A policy is a function of what it reads, so that the same narrowed input has the same answer (`inforce` keeps it), and
the engine's time, which grows with the input, is spent on what counts. Where this reader is in doubt, all is read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from brokerd.policy import lint
from brokerd.policy.lint import Source

_INPUT: Final = "input"
_VOLATILE: Final = ("time.now_ns", "rand.", "uuid.", "io.jwt.")
"""Built-ins (or the beginnings of their names) that answer otherwise each time: by the clock, or by chance."""

Reads = dict[str, "Reads | None"]
"""The parts of an input that are read, by key; None where the whole part is."""


class Narrow:
    """How an input is narrowed to what modules read."""

    def __init__(self, modules: Sequence[tuple[str, str]]) -> None:
        """Look at modules, each a name and a text, that have been loaded."""
        sources = [lint.read(name, text) for name, text in modules]
        self._reads = _reads(sources)
        self.lasting = not any(called.startswith(_VOLATILE) for one in sources for called in lint.called(one))
        """Whether the same narrowed input has the same answer each time."""

    def __call__(self, term: Mapping[str, Any]) -> Mapping[str, Any]:
        """An input without what no module reads."""
        return term if self._reads is None else _part(term, self._reads)


def _reads(sources: Sequence[Source]) -> Reads | None:
    """What modules read: every word that begins with `input`, as far as it is a path of plain names."""
    found: Reads = {}
    for source in sources:
        for token in source.tokens:
            first, *keys = token.text.split(".") if token.kind == "word" else ("",)
            if first == _INPUT:
                if not keys:
                    # `input` by itself, or with a key in brackets, which may be computed.
                    return None
                _add(found, keys)
    return found


def _add(found: Reads, keys: Sequence[str]) -> None:
    for key in keys[:-1]:
        inner = found.setdefault(key, {})
        if inner is None:
            return
        found = inner
    found[keys[-1]] = None


def _part(value: Mapping[str, Any], reads: Reads) -> dict[str, Any]:
    """What is read of a map. What is no map, though a part of it is read, goes in whole: the policy sees it is none."""
    kept: dict[str, Any] = {}
    for key, inner in reads.items():
        if key in value:
            part = value[key]
            kept[key] = _part(part, inner) if inner is not None and isinstance(part, dict) else part
    return kept
