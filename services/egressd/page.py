"""The text of a fetched HTML page. Pure; a page can be made to take long, and the caller bounds that.

Kept: the title, headings, lists, tables as lines, and where links lead. Left out: scripts, styles, and what the page
itself hides. Nothing is believed of it: it is data, and its label says so.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import urljoin

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PreformattedString, Tag

from egressd.text import Text, bounded, decode

_LEFT_OUT: Final = frozenset({
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas", "audio", "video",
    "head", "link", "meta", "title",
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
    soup = BeautifulSoup(decode(body, named), "html.parser")
    title = _SPACE.sub(" ", soup.title.get_text()).strip() if soup.title else ""
    text = _folded("".join(_pieces(soup, url)))
    return bounded(f"{title}\n\n{text}".strip(), limit_bytes)


def _pieces(soup: BeautifulSoup, url: str) -> list[str]:
    """The page's texts in order, with the marks between them. Walks without recursion: depth is the page's choice."""
    out: list[str] = []
    waiting: list[object] = [soup]
    preformatted = 0
    while waiting:
        node = waiting.pop()
        if isinstance(node, Tag):
            if node.name in _LEFT_OUT or _is_hidden(node):
                continue
            preformatted += node.name == "pre"
            out.append(_BEFORE.get(node.name, "\n" if node.name in _BLOCKS else ""))
            waiting.append(_End(node.name == "pre", _after(node, url)))
            waiting.extend(reversed(node.contents))
        elif isinstance(node, _End):
            preformatted -= node.preformatted
            out.append(node.text)
        elif isinstance(node, NavigableString) and not isinstance(node, PreformattedString):
            out.append(str(node) if preformatted else _SPACE.sub(" ", node))
    return out


class _End(NamedTuple):
    """What stands where a tag ends."""

    preformatted: bool
    text: str


def _after(tag: Tag, url: str) -> str:
    if tag.name == "a" and isinstance(link := tag.get("href"), str):
        return _link(link, url)
    if tag.name == "img" and isinstance(words := tag.get("alt"), str) and words.strip():
        return f"[{_SPACE.sub(' ', words).strip()}]"
    return "\n" if tag.name in _BLOCKS or tag.name in _LINES else ""


def _link(href: str, url: str) -> str:
    try:
        to = urljoin(url, _SPACE.sub("", href))
    except ValueError:
        return ""
    here = to.partition("#")[0] == url
    return "" if here or not to.startswith(("http://", "https://")) else f" ({to})"


def _is_hidden(tag: Tag) -> bool:
    if tag.has_attr("hidden") or tag.get("aria-hidden") == "true":
        return True
    style = tag.get("style")
    return isinstance(style, str) and _HIDDEN.search(style) is not None


def _folded(text: str) -> str:
    """Lines without space at their ends, and no two empty ones together."""
    lines: list[str] = []
    for line in text.split("\n"):
        kept = line.strip(" \t") if not line.startswith("    ") else line.rstrip()
        if kept or (lines and lines[-1]):
            lines.append(kept)
    return "\n".join(lines)
