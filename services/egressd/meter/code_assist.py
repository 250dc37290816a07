"""Gemini Code Assist (`v1internal:generateContent`, `:streamGenerateContent`): Gemini's answers, each in a `response`.

Source: google-gemini/gemini-cli, packages/core/src/code_assist/converter.ts (`CaGenerateContentResponse`).
"""

from typing import Final

import msgspec

from egressd.meter.gemini import Gemini, Part
from egressd.meter.reading import decoded


class _Wrapped(msgspec.Struct):
    response: Part | None = None


_decoder: Final = msgspec.json.Decoder(_Wrapped)


class CodeAssist(Gemini):
    """The meter of one answer."""

    def _part(self, text: bytes) -> Part | None:
        wrapped = decoded(_decoder, text)
        return None if wrapped is None else wrapped.response
