"""The worker that reads one fetched page: `python -I -m egressd.reader` (see `proto.role.worker`)."""

import gc
import json
import sys
from typing import Final

from egressd.page import html
from egressd.text import Text
from proto.role.confined import serve

MODULE: Final = "egressd.reader"
_CPU_S: Final = 5
_MEMORY_BYTES: Final = 256 << 20
_CUT: Final = b"+"
_WHOLE: Final = b"="


def question(body: bytes, charset: str | None, url: str, limit_bytes: int) -> bytes:
    """What the worker is asked: a line of JSON, then the page."""
    return json.dumps([charset, url, limit_bytes]).encode() + b"\n" + body


def answered(answer: bytes) -> Text:
    """The text that a worker answered.

    Raises:
        ValueError: it is none.

    """
    if answer[:1] not in (_CUT, _WHOLE):
        raise ValueError("the worker's answer is no text")
    return Text(answer[1:].decode(), truncated=answer[:1] == _CUT)


def read(request: bytes) -> bytes:
    """The answer to a question: a sign that says whether the text is cut, and the text."""
    head, _, body = request.partition(b"\n")
    charset, url, limit_bytes = json.loads(head)
    text = html(body, charset, url, limit_bytes)
    return (_CUT if text.truncated else _WHOLE) + text.text.encode()


if __name__ == "__main__":
    gc.disable()  # it reads one page and ends
    sys.exit(serve(read, cpu_s=_CPU_S, memory_bytes=_MEMORY_BYTES))
