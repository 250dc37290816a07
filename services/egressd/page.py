"""The text of a fetched HTML page. Pure, and linear in the page.

Kept: the title, headings, lists, tables as lines, and where links lead. Left out: scripts, styles, and what the page
itself hides. Nothing is believed of it: it is data, and its label says so.
"""

import functools
import re
from collections import defaultdict
from typing import Final
from urllib.parse import urljoin

from egressd.markup import End, Start, tokens
from egressd.text import Text, bounded, decode

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
    page = _Page(url)
    for token in tokens(decode(body, named)):
        match token:
            case Start():
                page.start(token)
            case End(name=name):
                page.end(name)
            case str():
                page.text(token)
        if page.chars > limit_bytes:
            break
    title = _SPACE.sub(" ", page.title or "").strip()
    return bounded(f"{title}\n\n{_folded(page.whole())}".strip(), limit_bytes)


class _Page:
    """What has been read so far. An end ends every element inside the one that it names; if there is none, nothing."""

    def __init__(self, url: str) -> None:
        self.title: str | None = None
        self.chars = 0
        """How many characters that are no space there are: these stay."""
        self._url = url
        self._out: list[str] = []
        self._open: list[tuple[str, str, bool]] = []
        # Name, the text that stands where it ends, whether it is left out.
        self._names: defaultdict[str, int] = defaultdict(int)
        self._left_out = 0

    def start(self, tag: Start) -> None:
        name = tag.name
        left_out = name in _LEFT_OUT or (bool(tag.attributes) and _is_hidden(tag))
        if not left_out and not self._left_out:
            self._out.append(_BEFORE.get(name, "\n" if name in _BLOCKS else ""))
        after = _after(tag, self._url)
        if tag.empty:
            self._end(after, left_out=left_out)
            return
        self._open.append((name, after, left_out))
        self._names[name] += 1
        self._left_out += left_out

    def end(self, name: str) -> None:
        while self._names[name]:
            ended, after, left_out = self._open.pop()
            self._names[ended] -= 1
            self._left_out -= left_out
            self._end(after, left_out=left_out)
            if ended == name:
                return

    def text(self, text: str) -> None:
        if self.title is None and self._left_out == 1 and self._open[-1][0] == "title":
            self.title = text
        elif not self._left_out:
            self.chars += len(text.strip())
            self._out.append(text if self._names["pre"] else _SPACE.sub(" ", text))

    def whole(self) -> str:
        while self._open:
            self.end(self._open[-1][0])
        return "".join(self._out)

    def _end(self, after: str, *, left_out: bool) -> None:
        if not left_out and not self._left_out:
            self.chars += len(after.strip())
            self._out.append(after)


def _after(tag: Start, url: str) -> str:
    if tag.name == "a" and (link := tag.attributes.get("href")) is not None:
        return _link(link, url)
    if tag.name == "img" and (words := tag.attributes.get("alt", "").strip()):
        return f"[{_SPACE.sub(' ', words)}]"
    return "\n" if tag.name in _BLOCKS or tag.name in _LINES else ""


@functools.lru_cache(maxsize=256)
def _link(href: str, url: str) -> str:
    try:
        to = urljoin(url, _SPACE.sub("", href))
    except ValueError:
        return ""
    here = to.partition("#")[0] == url
    return "" if here or not to.startswith(("http://", "https://")) else f" ({to})"


def _is_hidden(tag: Start) -> bool:
    attributes = tag.attributes
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    return _HIDDEN.search(attributes.get("style", "")) is not None


def _folded(text: str) -> str:
    """Lines without space at their ends, and no two empty ones together."""
    lines: list[str] = []
    for line in text.split("\n"):
        kept = line.strip(" \t") if not line.startswith("    ") else line.rstrip()
        if kept or (lines and lines[-1]):
            lines.append(kept)
    return "\n".join(lines)
