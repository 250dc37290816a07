"""The grammar of intents: what the last user message asks of the box, when it asks in one of these ways.

A model of 135 million parameters cannot choose tools. This server reads these sentences instead of it, and only these;
every other message gets the model's own words. Case does not matter; "please", "can you", "hey" and the like may stand
before; typographic and plain apostrophes are one.

    remember (that) TEXT · don't forget (that) TEXT · keep in mind (that) TEXT      memory add, file memory
    the same, with a TEXT that begins with I, I'm, my, call me …                    memory add, file user
    note (that) TEXT · take a note: TEXT · write down TEXT                          memory note
    what did I say about TOPIC · what have we decided on TOPIC                      recall
    do you remember TOPIC · recall TOPIC · what do you remember about TOPIC         recall
    did I mention TOPIC · when did I say TOPIC                                      recall
    search your memory for TOPIC · what is in your memory about TOPIC               recall
    forget (about) TOPIC · remove TOPIC from (your) memory                          memory remove, the entry that fits
    fetch URL · read URL · open URL · get URL · show me URL · summarize URL         call_tool http_fetch
    fetch HOST/PATH                                                                 the same, with https://
    记住 TEXT · 记得 TEXT · 请记住 TEXT                                             memory add (我…: file user)
    笔记：TEXT · 忘记 TOPIC                                                         memory note, memory remove
    remember, note, recall, forget, fetch, 记住 …, with nothing behind it           a question: what?

TEXT is kept word for word. TOPIC loses its article, its question mark and words like "again". A message that ends with
a question mark is never a remember or a note. A pure function of one text: nothing that a tool answered is read here.
"""

import re
from typing import Final, Literal

import msgspec

from boxmaker_model.memory_block import IdentityFile

LONGEST_QUERY: Final = 500
"""Characters; M5a section 5."""
LONGEST_MESSAGE: Final = 4000
"""Characters; a longer message is no intent (memory.md holds 2,200, a note 1,000), and no pattern meets a huge text."""


class Remember(msgspec.Struct, frozen=True):
    """Keep a fact in an identity file."""

    file: IdentityFile
    text: str


class Note(msgspec.Struct, frozen=True):
    """Keep something seen or told in notes.md."""

    text: str


class Recall(msgspec.Struct, frozen=True):
    """Find what was said."""

    query: str


class Forget(msgspec.Struct, frozen=True):
    """Take an entry out of an identity file."""

    about: str


class Fetch(msgspec.Struct, frozen=True):
    """Read a page."""

    url: str


class Ask(msgspec.Struct, frozen=True):
    """A command without its object: ask for it, and do nothing."""

    verb: "Verb"


Verb = Literal["remember", "note", "recall", "forget", "fetch"]
Intent = Ask | Remember | Note | Recall | Forget | Fetch

_POLITE: Final = (
    r"(?:(?:please|kindly|hey|hi|hello|ok|okay|so|and|now|well|also|box|thanks|(?:can|could|would|will) you"
    r"|i want you to|i would like you to|i'd like you to)\b[\s,.!:]*)*"
)
_SAID: Final = (
    r"(?:say|said|tell(?: you)?|told(?: you)?|mention(?:ed)?|write|wrote|written|note(?:d)?|decide[d]?|agree[d]?"
    r"|discuss(?:ed)?|ask(?:ed)?(?: you)?|remember(?:ed)?)"
)
_ABOUT: Final = r"(?:about|on|regarding|concerning|of)"
_WHO: Final = r"(?:i|we|you)"
_OUR: Final = r"(?:i|we)"


def _rule(*forms: str, tail: str = "") -> re.Pattern[str]:
    return re.compile(rf"{_POLITE}(?:{'|'.join(forms)}){tail}", re.IGNORECASE | re.DOTALL)


_RECALL: Final = _rule(
    rf"what (?:did|have|had) {_WHO} (?:ever )?{_SAID} {_ABOUT}\s+",
    rf"what (?:was|has been) (?:said|decided|agreed|noted) {_ABOUT}\s+",
    rf"(?:do|did) you (?:still )?(?:remember|recall)\b\s*"
    rf"(?:what {_WHO} (?:ever )?{_SAID} {_ABOUT}|anything {_ABOUT})?\s*",
    rf"(?:remember|recall) what {_WHO} (?:ever )?{_SAID} {_ABOUT}\s+",
    rf"recall\b[\s:,]*(?:anything {_ABOUT}|{_ABOUT})?\s*",
    rf"what (?:do|can) you (?:still )?(?:remember|recall) {_ABOUT}\s+",
    rf"(?:did|have) {_OUR} (?:ever |already )?{_SAID} (?:anything {_ABOUT}|something {_ABOUT}|{_ABOUT})?\s*",
    rf"when did {_OUR} (?:last )?{_SAID} (?:anything {_ABOUT}|{_ABOUT})?\s*",
    rf"(?:search|look in|look through) (?:your |the |my )?(?:memory|memories|notes) (?:for|{_ABOUT})\s+",
    rf"what(?: is|'s| do you have) in (?:your |the )?(?:memory|notes) {_ABOUT}\s+",
    tail=r"(?P<topic>.+)",
)
_REMEMBER: Final = _rule(
    r"remember", r"memori[sz]e", r"(?:don't|do not|never) forget", r"(?:keep|bear) in mind",
    tail=r"\b[\s:,]*(?:that\b[\s:,]*)?(?P<text>.+)",
)  # fmt: skip
_NOTE: Final = _rule(
    r"note(?: down)?", r"(?:take|make) (?:a )?note(?: of)?", r"(?:jot|write) down",
    tail=r"\b(?![-/])[\s:,]*(?:that\b[\s:,]*)?(?P<text>.+)",
)  # fmt: skip
_FORGET: Final = _rule(r"forget", tail=rf"\b[\s:,]*(?:what {_WHO} {_SAID}\s+)?(?:about|that)?\b\s*(?P<topic>.+)")
_REMOVE: Final = _rule(
    r"remove|delete|erase|drop",
    tail=r"\s+(?P<topic>.+?)\s+from (?:your |the |my )?(?:memory|memories|memory\.md|user\.md)[\s.!]*",
)
_FETCH: Final = _rule(
    r"fetch|read|open|get|load|visit|show(?: me)?|look at|summari[sz]e",
    tail=r"\s+(?:(?:me|the|this|page|site|website|web|url|link|at|from|contents?|of)\s+)*[<\"'(]?(?P<url>https?://\S+).*",
)
_FETCH_HOST: Final = _rule(
    r"fetch", tail=r"\s+(?P<host>(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}(?::\d+)?(?:/\S*)?)[\s.!]*"
)
_SEPARATOR: Final = r"[\s:,：，。、]"
_CHINESE: Final = re.compile(
    rf"请?(?:(?P<remember>记住|记得)|(?P<forget>忘记)|(?P<note>笔记(?={_SEPARATOR}|$))){_SEPARATOR}*(?P<text>.*)",
    re.DOTALL,
)
_ALONE: Final = _rule(
    r"(?P<remember>remember|memori[sz]e|(?:don't|do not|never) forget|(?:keep|bear) in mind)",
    r"(?P<note>note(?: down)?|(?:take|make) (?:a )?note|(?:jot|write) down)",
    r"(?P<recall>recall)", r"(?P<forget>forget)", r"(?P<fetch>fetch)",
    tail=r"(?:\s+(?:about|that|this|it|me|him|her|them|please|something))*[\s.!?:,…]*",
)  # fmt: skip
_ASKS: Final = ("?", "？")
_ASKS_CHINESE: Final = ("吗", "吗。")
_OWNER: Final = re.compile(r"我|(?:(?:to )?call me|i|i'm|im|i've|i'd|i'll|my|mine)\b", re.IGNORECASE)
_ARTICLE: Final = re.compile(r"^(?:(?:the|a|an|my|our|your|this|these|those|if|whether|that)\s+)+", re.IGNORECASE)
_LATER: Final = re.compile(
    r"\s+(?:again|earlier|before|yesterday|today|recently|so far|last (?:time|week|month)|the other day|please)$",
    re.IGNORECASE,
)
_NOTHING: Final = frozenset({"", "it", "that", "this", "me", "about it", "about that", "him", "her", "them", "you"})
_EDGES: Final = " \t\r\n?!.,;:。，：？！、\"'“”‘«»"


def read(message: str) -> Intent | None:
    """The intent of a message, or None when it asks nothing that this grammar knows."""
    text = message.replace("’", "'").strip()
    if len(text) > LONGEST_MESSAGE:
        return None
    asks = text.endswith(_ASKS)
    if match := _ALONE.fullmatch(text):
        return _ask(match)
    if match := _FETCH.fullmatch(text):
        return Fetch(_url(match["url"]))
    if match := _FETCH_HOST.fullmatch(text):
        return Fetch(f"https://{_url(match['host'])}")
    if match := _RECALL.fullmatch(text):
        return _recall(match["topic"])
    if not asks and (match := _REMEMBER.fullmatch(text)):
        return _remember(_verbatim(message, match["text"]))
    if asks and (match := _REMEMBER.fullmatch(text)):
        return _recall(match["text"])
    if match := _REMOVE.fullmatch(text) or _FORGET.fullmatch(text):
        return _forget(match["topic"])
    if not asks and (match := _NOTE.fullmatch(text)):
        return Note(_verbatim(message, match["text"]))
    match = None if asks or text.endswith(_ASKS_CHINESE) else _CHINESE.fullmatch(text)
    return _chinese(match, message) if match else None


def _ask(match: re.Match[str]) -> Ask | None:
    verbs: tuple[Verb, ...] = ("remember", "note", "recall", "forget", "fetch")
    return next((Ask(verb) for verb in verbs if match.groupdict().get(verb)), None)


def _chinese(match: re.Match[str], message: str) -> Intent | None:
    """The few words of Chinese, which has no spaces: everything behind the command is its object."""
    if not match["text"].strip(_EDGES):
        return _ask(match)
    if match["forget"]:
        return _forget(match["text"])
    text = _verbatim(message, match["text"])
    return Note(text) if match["note"] else _remember(text)


def _verbatim(message: str, tail: str) -> str:
    """The end of the message as it was typed: reading it changed only apostrophes, one for one."""
    return message.strip()[-len(tail) :].strip()


def _remember(text: str) -> Remember | None:
    if text.strip(_EDGES).casefold() in _NOTHING:
        return None
    return Remember("user" if _OWNER.match(text.replace("’", "'")) else "memory", text)


def _recall(topic: str) -> Recall | None:
    query = _topic(topic)
    return None if query.casefold() in _NOTHING else Recall(query[:LONGEST_QUERY])


def _forget(topic: str) -> Forget | None:
    about = _topic(topic)
    return None if about.casefold() in _NOTHING else Forget(about)


def _topic(text: str) -> str:
    topic = text.strip(_EDGES)
    while (shorter := _LATER.sub("", topic).strip(_EDGES)) != topic:
        topic = shorter
    return _ARTICLE.sub("", topic).strip(_EDGES)


def _url(text: str) -> str:
    """A URL as it stands in a sentence, without the sentence's punctuation."""
    url = text.rstrip(".,;:!?'\"<>”’")
    return url.rstrip(").,") if "(" not in url else url
