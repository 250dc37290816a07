"""The text of a fetched page. Pure; what is hostile in size or shape is for the caller to bound in time.

Kept: the title, headings, lists, tables as lines, and where links lead. Left out: scripts, styles, and what the page
itself hides. Nothing is believed of it: it is data, and its label says so.
"""

import codecs
import re
from typing import Final, NamedTuple
from urllib.parse import urljoin

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PreformattedString, Tag

_LEFT_OUT: Final = frozenset({
    "script", "style", "noscript", "template", "svg", "math", "iframe", "object", "embed", "canvas", "audio", "video",
    "head", "link", "meta",
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
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACE: Final = re.compile(r"[ \t\r\n\f\v\xa0]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_META_CHARSET: Final = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_NO_CHARSETS: Final = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf-7"})
"""Codecs of Python that are no charset of the Web; some of them are slow, or give what was not sent."""
_LOOKED_AT_BYTES: Final = 2048


class Text(NamedTuple):
    """A text of at most a number of bytes in UTF-8; `truncated` says that there was more."""

    text: str
    truncated: bool


def is_html(content_type: str) -> bool:
    """Whether a media type is HTML."""
    return content_type in ("text/html", "application/xhtml+xml")


def plain(body: bytes, charset: str | None, limit_bytes: int) -> Text:
    """The text of a body that is text already."""
    return _bounded(decode(body, charset).replace("\r\n", "\n"), limit_bytes)


def html(body: bytes, charset: str | None, url: str, limit_bytes: int) -> Text:
    """The text of an HTML page that was fetched from a URL."""
    found = _META_CHARSET.search(body[:_LOOKED_AT_BYTES])
    named = charset or (found and found[1].decode("ascii")) or None
    soup = BeautifulSoup(decode(body, named), "html.parser")
    title = _SPACE.sub(" ", soup.title.get_text()).strip() if soup.title else ""
    text = _folded("".join(_pieces(soup, url)))
    return _bounded(f"{title}\n\n{text}".strip(), limit_bytes)


def decode(body: bytes, charset: str | None) -> str:
    """The text of some bytes: a byte order mark before the named charset before UTF-8; what is wrong becomes U+FFFD."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    try:
        return body.decode(_known(charset) or "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")


def _known(charset: str | None) -> str | None:
    try:
        name = codecs.lookup(charset).name if charset else None
    except (LookupError, ValueError):
        return None
    if name == "iso8859-1":
        return "cp1252"  # as browsers read it (WHATWG Encoding)
    return None if name in _NO_CHARSETS else name


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
    return "\n" if tag.name in _BLOCKS or tag.name.startswith("h") else ""


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


def _bounded(text: str, limit_bytes: int) -> Text:
    clean = _CONTROL.sub("", text)
    data = clean.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return Text(data.decode("utf-8"), truncated=False)
    return Text(data[:limit_bytes].decode("utf-8", "ignore"), truncated=True)
