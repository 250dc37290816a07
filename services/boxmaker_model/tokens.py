"""Counting in the embedded model's own tokens, for whoever measures a prompt."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from boxmaker_model.engine import Engine

_SMALLEST_CONTEXT = 64


def count_tokens(text: str) -> int:
    """The number of the model's tokens in a text; the first call loads the model (half a second), later ones are fast.

    Raises:
        ModelAbsent: the extra `model` is not installed.

    """
    return _engine().count(text)


@functools.cache
def _engine() -> Engine:
    folder = Path(tempfile.mkdtemp(prefix="bxm"))
    engine = Engine(folder / "tokens.sock", _SMALLEST_CONTEXT)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(engine.close)
    return engine
