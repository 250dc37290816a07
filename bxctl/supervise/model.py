"""What a person should know about the model before it answers."""

from collections.abc import Mapping
from typing import Final

from bxctl import providers
from bxctl.places import Box
from bxctl.supervise.lock import holder

SMALL: Final = f"""\
the very small model on this machine answers; for a real one name it, with its key in the environment:
OPENAI_API_KEY=… {providers.VARIABLE}=openai/gpt-5 bxctl run"""


def not_heeded(box: Box, environ: Mapping[str, str]) -> str | None:
    """The sentence on a model that the environment names to a box that is up with another; None when there is none.

    Raises:
        Fault: `config-invalid`.

    """
    chosen = providers.chosen(environ)
    pid, answering = holder(box.own) or ("", "")
    answering = answering or str(providers.model_of(box.home, {}))
    if chosen is None or str(chosen) == answering:
        return None
    stop = f"stop that box first (kill {pid})" if pid else "stop that box first"
    return (
        f"{providers.VARIABLE}={chosen} is not heeded: a box is up already on {box.home}, "
        f"where {answering} answers new sessions; to have another, {stop}"
    )
