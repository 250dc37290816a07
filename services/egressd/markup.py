"""HTML into tags and texts, in one pass over the page. Pure.

Laws (tested): the time is linear in the page, whatever stands in it, because what is begun and never ended reaches to
the page's end and is read once; no text of a comment, a declaration or a script comes out; nothing raises.

Source: WHATWG HTML, "Tokenization", as far as it decides what is text. A tree is not built: `page` needs none.
"""

import functools
import html
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# A sign of less-than before anything else is text.
_BEGIN: Final = re.compile(r"<[!?/a-zA-Z]")
_TOKEN: Final = re.compile(
    r"""
      <!--(?:-?>|.*?(?:--!?>|\Z))
    | <!\[CDATA\[.*?(?:\]\]>|\Z)
    | </(?P<end>[a-zA-Z][^\s/>]*+)[^>]*+(?:>|\Z)
    | <[!?/][^>]*+(?:>|\Z)
    | <(?P<start>[a-zA-Z][^\s/>]*+)
      (?P<attributes>(?:[^>"'=]++|=\s*+"[^"]*+(?:"|\Z)|=\s*+'[^']*+(?:'|\Z)|["'=])*+)
      (?P<close>>|\Z)
    """,
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE: Final = re.compile(
    r"""(?P<name>[^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:"(?P<double>[^"]*+)"?|'(?P<single>[^']*+)'?|(?P<bare>[^\s>]*+)))?+"""
)
# Longer numbers are no characters, and would take long to read.
_CHARACTER: Final = re.compile(
    r"&(?:#[0-9]{1,7}(?![0-9]);?|#[xX][0-9a-fA-F]{1,6}(?![0-9a-fA-F]);?|[A-Za-z][A-Za-z0-9]{1,31};?)"
)
_UNREAD: Final = frozenset({"script", "style", "xmp", "iframe", "noembed", "noframes"})
_READ: Final = frozenset({"title", "textarea"})
_ENDS: Final = {name: re.compile(rf"</{name}(?=[\s/>])|\Z", re.IGNORECASE) for name in _UNREAD | _READ}
_VOID: Final = frozenset({
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link",
    "meta", "param", "source", "track", "wbr",
})  # fmt: skip


class Start(NamedTuple):
    """A tag that begins an element; `empty` says that the element ends with it."""

    name: str
    attributes: dict[str, str]
    empty: bool


class End(NamedTuple):
    """A tag that ends an element."""

    name: str


def tokens(page: str) -> Iterator[Start | End | str]:
    """The tags and texts of a page in order; names are in lower case, characters are decoded."""
    at = 0
    while (begins := _BEGIN.search(page, at)) and (found := _TOKEN.match(page, begins.start())):
        if begins.start() > at:
            yield _decoded(page[at : begins.start()])
        at = found.end()
        end, name, attributes, close = found.group("end", "start", "attributes", "close")
        if end:
            yield End(end.lower())
        elif name and close:
            start = _start(name.lower(), attributes) if attributes else _bare(name.lower())
            yield start
            if start.name in _ENDS and not start.empty:
                stop = _ENDS[start.name].search(page, at)
                content, at = (page[at : stop.start()], stop.start()) if stop else (page[at:], len(page))
                if content and start.name in _READ:
                    yield _decoded(content)
    if at < len(page):
        yield _decoded(page[at:])


@functools.lru_cache(maxsize=256)
def _bare(name: str) -> Start:
    """A tag without attributes, as most are."""
    return Start(name, {}, name in _VOID)


def _start(name: str, untrusted: str) -> Start:
    attributes: dict[str, str] = {}
    for found in _ATTRIBUTE.finditer(untrusted):
        value = found["double"] or found["single"] or found["bare"] or ""
        attributes.setdefault(found["name"].lower(), _decoded(value))
    last = untrusted.rstrip().rsplit(None, 1)[-1:]
    closed = bool(last) and last[0].endswith("/") and ("=" not in last[0] or last[0][-2:-1] in ("'", '"'))
    return Start(name, attributes, closed or name in _VOID)


def _decoded(text: str) -> str:
    return _CHARACTER.sub(lambda found: html.unescape(found[0]), text) if "&" in text else text
