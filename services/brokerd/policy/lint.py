"""What a module calls, found without an engine: regopy takes a function that it does not have for undefined.

A rule of denial that calls one would be silently undefined, and the call that it should deny would pass. So every call
in every module must be to a built-in of the engine or to a function that a module defines. Where this reader is in
doubt it refuses: a module that does not load denies everything, and says why.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

BLOCKED: Final = {
    "time.parse_rfc3339_ns": "it is undefined for a time that ends in Z; compare input.now, which holds integers",
    "opa.runtime": "a decision does not depend on the machine's environment",
    "re_match": "it is not there; use regex.match on a short text",
    "cast_array": "it is not there",
    "any": "it is not there; use `some … in`",
    "all": "it is not there; use `every`",
    "http.send": "a policy reaches nothing",
    "net.lookup_ip_addr": "a policy reaches nothing",
}
"""Functions that no module may call or define, and why."""

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r]+)|(?P<comment>\#[^\n]*)|(?P<newline>\n)
    |(?P<template>\$["`])
    |(?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\s*\.\s*[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<mark>:=|==|!=|<=|>=|[-+*/%&|<>=(){}\[\],;:.$])""",
    re.VERBOSE,
)
_OPERATORS: Final = (
    ":=",
    "==",
    "!=",
    "<=",
    ">=",
    "=",
    "<",
    ">",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    ",",
    ":",
    ".",
    "(",
    "[",
)
_JOINING: Final = ("if", "in", "not", "with", "as", "some", "every", "contains", "else")
_KEYWORDS: Final = frozenset((*_JOINING, "package", "import", "default", "true", "false", "null"))
_GOES_ON: Final = frozenset((*_OPERATORS, *_JOINING))
"""What a line ends with when the next one belongs to it."""


class LintError(Exception):
    """A module that may not be loaded; the message names it, the line, and what is wrong."""


class Token(NamedTuple):
    """A word (dotted names are one), a text, a number or a mark, and the line that it begins on."""

    kind: str
    text: str
    line: int


class Source(NamedTuple):
    """A module as read: its package, what it imports by which name, its tokens, and the functions that it defines."""

    name: str
    package: str
    imports: dict[str, str]
    tokens: tuple[Token, ...]
    functions: frozenset[str]


def read(name: str, text: str) -> Source:
    """Read a module.

    Raises:
        LintError: a sign that Rego has not, a template string, or no package.

    """
    tokens = tuple(_tokens(name, text))
    words = [token for token in tokens if token.kind != "newline"]
    if len(words) < 2 or words[0].text != "package" or words[1].kind != "word":
        raise LintError(f"{name}: the first statement is not a package")
    return Source(name, words[1].text, dict(_imports(words)), tokens, frozenset(_functions(name, tokens)))


def check_calls(sources: list[Source], is_builtin: Callable[[str], bool]) -> None:
    """Refuse the modules that call what is not there.

    Raises:
        LintError: the first such call.

    """
    defined = {f"data.{source.package}.{function}" for source in sources for function in source.functions}
    for source in sources:
        for called, line in _calls(source):
            where = f"{source.name}, line {line}: {called}"
            if called in BLOCKED:
                raise LintError(f"{where} may not be called: {BLOCKED[called]}")
            if not (is_builtin(called) or _full_names(source, called) & defined):
                raise LintError(f"{where} is not a function of this engine or of a module")


def called(source: Source) -> Iterator[str]:
    """The name of every function that a module calls, as it stands there or as its imports have it in full."""
    for name, _ in _calls(source):
        yield from _full_names(source, name)


def _tokens(name: str, text: str) -> Iterator[Token]:
    line, at = 1, 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup == "template":
            what = "a template string" if found else f"the sign {text[at]!r}"
            raise LintError(f"{name}, line {line}: {what} is not read here")
        kind = str(found.lastgroup)
        if kind not in ("space", "comment"):
            word = re.sub(r"\s", "", found[0]) if kind == "word" else found[0]
            yield Token(kind, word, line)
        line += found[0].count("\n")
        at = found.end()


def _imports(words: list[Token]) -> Iterator[tuple[str, str]]:
    for index, token in enumerate(words[:-1]):
        if token.text == "import" and words[index + 1].kind == "word":
            path = words[index + 1].text
            follows = words[index + 2 : index + 4]
            alias = follows[1].text if len(follows) == 2 and follows[0].text == "as" else path.rsplit(".", 1)[-1]
            yield alias, path


def _functions(name: str, tokens: tuple[Token, ...]) -> Iterator[str]:
    """The names of functions that heads of rules define: `name(` at the beginning of a statement."""
    depth = 0
    before, at_line_start = "", True
    for index, token in enumerate(tokens):
        if token.kind == "newline":
            at_line_start = True
            continue
        if token.kind == "mark" and token.text in "([{":
            depth += 1
        elif token.kind == "mark" and token.text in ")]}":
            depth -= 1
        begins = depth == 0 and (before == "default" or (at_line_start and before not in _GOES_ON))
        if begins and token.kind == "word" and "." not in token.text and _opens(tokens, index + 1):
            if token.text in BLOCKED:
                raise LintError(f"{name}, line {token.line}: {token.text} may not be defined: {BLOCKED[token.text]}")
            yield token.text
        before, at_line_start = token.text, False


def _calls(source: Source) -> Iterator[tuple[str, int]]:
    """Each name before a parenthesis that is no keyword, and its line; a call of anything but a name is refused."""
    before: Token | None = None
    for index, token in enumerate(source.tokens):
        if token.kind == "newline":
            continue
        if token.kind == "word" and token.text not in _KEYWORDS and _opens(source.tokens, index + 1):
            yield token.text, token.line
        same_line = before is not None and before.line == token.line
        if token.text == "(" and before and same_line and (before.text in ("]", ")") or before.kind == "text"):
            raise LintError(f"{source.name}, line {token.line}: only a function's plain name can be called")
        before = token


def _opens(tokens: tuple[Token, ...], index: int) -> bool:
    """Whether a parenthesis opens next, line breaks left out."""
    for token in tokens[index:]:
        if token.kind != "newline":
            return token.text == "("
    return False


def _full_names(source: Source, called: str) -> set[str]:
    first, _, rest = called.partition(".")
    names = {called, f"data.{source.package}.{called}"}
    if rest and first in source.imports:
        names.add(f"{source.imports[first]}.{rest}")
    elif called in source.imports:
        names.add(source.imports[called])
    return names
