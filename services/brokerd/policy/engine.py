"""The one door to regopy: modules in, the text of an answer out. Runs in a worker, never in brokerd itself.

Input goes in by `set_input_term` alone: `set_input` does not escape texts, and a text could then forge the answer.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from regopy import Interpreter, LogLevel, RegoError

from brokerd.policy import lint

ENTRYPOINTS: Final = ("boxmaker/tool/decision", "boxmaker/egress/decision")
_LONGEST_PROBLEM_CHARS: Final = 600
_ERROR: Final = re.compile(r"\(error \d+:(?P<name>[^|]+)\|(?P<at>\d+)\|\d+\s*\(errormsg \d+:(?P<what>[^)]*)\)")
"""How the engine tells of an error: a tree of terms, with the place as an offset."""


class EngineError(Exception):
    """The modules cannot be loaded; the message says why."""


class InputError(Exception):
    """The engine refused an input, and still holds the one before: nothing more may be asked of it."""


class Engine:
    """Modules compiled once; asked many times."""

    def __init__(self, modules: Sequence[tuple[str, str]]) -> None:
        """Load modules, each a name and a text.

        Raises:
            EngineError: one cannot be read, calls what is not there, or they do not compile together.

        """
        self._rego = Interpreter()
        self._rego.log_level = LogLevel.NONE
        # An error inside a built-in is an error of the whole, not an undefined that a denial would vanish in.
        self._rego.strict_built_in_errors = True
        try:
            lint.check_calls([lint.read(name, text) for name, text in modules], self._rego.is_builtin)
            for name, text in modules:
                self._rego.add_module(name, text)
            self._bundle = self._rego.build(None, ENTRYPOINTS)
        except lint.LintError as error:
            raise EngineError(str(error)) from None
        except (RegoError, ValueError) as error:
            raise EngineError(_told(str(error), dict(modules))) from None
        if not self._bundle.ok():
            raise EngineError("the modules do not compile")

    def ask(self, entrypoint: str, term: str) -> str | None:
        """The engine's answer to an input (a JSON text), as JSON text; None where it is an error or undefined.

        Raises:
            InputError: the input was refused.

        """
        try:
            self._rego.set_input_term(term)
        except (RegoError, ValueError) as error:
            raise InputError(str(error)[:_LONGEST_PROBLEM_CHARS]) from None
        try:
            output = self._rego.query_bundle_entrypoint(self._bundle, entrypoint)
        except (RegoError, ValueError):
            # regopy parses the answer itself, and "<error>" is no JSON.
            return None
        return str(output) if output.ok() else None


def _told(error: str, texts: Mapping[str, str]) -> str:
    """The first error that the engine tells of, with its line, or all that it says."""
    found = _ERROR.search(error)
    if found is None or found["name"] not in texts:
        return f"the modules do not compile: {error[:_LONGEST_PROBLEM_CHARS]}"
    line = texts[found["name"]].encode()[: int(found["at"])].count(b"\n") + 1
    return f"{found['name']}, line {line}: {found['what'][:_LONGEST_PROBLEM_CHARS]}"
