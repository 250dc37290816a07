"""The text of a fetched HTML page. Pure.

Kept: the title, headings, lists, tables as lines, and where links lead. Left out: scripts, styles, and what the page
itself hides. Nothing is believed of it: it is data, and its label says so. Lexbor makes the tree, as a browser would
(WHATWG HTML); a page can be made on which that takes long, so only the confined `reader` calls this.
"""

import functools
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

from egressd.text import Text, bounded, decode, visible

_LEFT_OUT: Final = frozenset({
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas", "audio", "video",
    "link", "meta", "title",
})  # fmt: skip
_BLOCKS: Final = frozenset({
    "address", "article", "aside", "blockquote", "body", "br", "caption", "dd", "details", "dialog", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "main", "nav", "ol", "option", "p",
    "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
})  # fmt: skip
_BEFORE: Final = {
    "h1": "\n\n# ", "h2": "\n\n## ", "h3": "\n\n### ", "h4": "\n\n#### ", "h5": "\n\n##### ", "h6": "\n\n###### ",
    "li": "\n- ", "td": "\t", "th": "\t", "p": "\n\n", "pre": "\n\n",
}  # fmt: skip
_LINES: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "li"})
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACE: Final = re.compile(r"[ \t\r\n\f\v\xa0]+")
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_LOOKED_AT_BYTES: Final = 2048


def html(body: bytes, charset: str | None, url: str, limit_bytes: int) -> Text:
    """The text of an HTML page that was fetched from a URL."""
    found = _META_CHARSET.search(body[:_LOOKED_AT_BYTES])
    named = charset or (found and found[1].decode("ascii")) or None
    page = _Page(url, limit_bytes)
    page.read(LexborHTMLParser(decode(body, named)).root)
    title = _SPACE.sub(" ", page.title or "").strip()
    return bounded(f"{title}\n\n{_folded(visible(page.whole()))}".strip(), limit_bytes)


class _Page:
    """What has been read so far. The walk keeps its own stack: a page may nest deeper than Python recurses."""

    def __init__(self, url: str, limit_bytes: int) -> None:
        self.title: str | None = None
        self._url = url
        self._limit_bytes = limit_bytes
        self._chars = 0
        # Characters that are no space, which stay: with more of them than the limit, no more is read.
        self._out: list[str] = []
        self._open: list[tuple[LexborNode, str]] = []
        # The elements around, and the text that stands where each ends.
        self._pre = 0

    def read(self, node: LexborNode | None) -> None:
        """Read a tree, until the text is long enough."""
        while node is not None and self._chars <= self._limit_bytes:
            inside = self._start(node)
            following = inside or node.next
            while following is None and self._open:
                following = self._end().next
            node = following

    def whole(self) -> str:
        while self._open:
            self._end()
        return "".join(self._out)

    def _start(self, node: LexborNode) -> LexborNode | None:
        """Read what a node begins with; its first child, if it has one that is read."""
        if node.is_text_node:
            self._text(node.text_content or "")
            return None
        name = node.tag or ""
        if name == "title" and self.title is None:
            self.title = node.text()
        if not node.is_element_node or name in _LEFT_OUT:
            return None
        attributes = node.attributes
        if attributes and _is_hidden(attributes):
            return None
        self._out.append(_BEFORE.get(name, "\n" if name in _BLOCKS else ""))
        after = _after(name, attributes, self._url)
        child = node.first_child
        if child is None:
            self._add(after)
        else:
            self._open.append((node, after))
            self._pre += name == "pre"
        return child

    def _end(self) -> LexborNode:
        node, after = self._open.pop()
        self._pre -= node.tag == "pre"
        self._add(after)
        return node

    def _text(self, text: str) -> None:
        self._add(text if self._pre else _SPACE.sub(" ", text))

    def _add(self, text: str) -> None:
        self._chars += len(text.strip())
        self._out.append(text)


def _after(name: str, attributes: Mapping[str, str | None], url: str) -> str:
    if name == "a" and "href" in attributes:
        return _link(attributes["href"] or "", url)
    if name == "img" and (words := (attributes.get("alt") or "").strip()):
        return f"[{_SPACE.sub(' ', words)}]"
    return "\n" if name in _BLOCKS or name in _LINES else ""


@functools.lru_cache(maxsize=256)
def _link(href: str, url: str) -> str:
    try:
        to = urljoin(url, _SPACE.sub("", href))
    except ValueError:
        return ""
    here = to.partition("#")[0] == url
    return "" if here or not to.startswith(("http://", "https://")) else f" ({to})"


def _is_hidden(attributes: Mapping[str, str | None]) -> bool:
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    return _HIDDEN.search(attributes.get("style") or "") is not None


def _folded(text: str) -> str:
    """Lines without space at their ends, and no two empty ones together."""
    lines: list[str] = []
    for line in text.split("\n"):
        kept = line.strip(" \t") if not line.startswith("    ") else line.rstrip()
        if kept or (lines and lines[-1]):
            lines.append(kept)
    return "\n".join(lines)
