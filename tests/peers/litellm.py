"""LiteLLM's proxy as the gateway, in the environment that `tests/peers/environment.sh` makes."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.peers.server import free_port, serving

PROGRAM: Final = Path(__file__).parents[2] / ".venv-litellm/bin/litellm"
_KEY: Final = "sk-gateway-0123456789"


class Proxy(NamedTuple):
    """A running proxy: its port of loopback, the key that it wants, its process id."""

    port: int
    key: str
    pid: int


@contextlib.contextmanager
def running(folder: Path, upstream: str, models: Sequence[str], provider: str = "openai") -> Iterator[Proxy]:
    """The proxy in front of an OpenAI-shaped upstream (its URL with /v1), serving models that it calls the same."""
    port = free_port()
    listed = [
        {"model_name": name, "litellm_params": {"model": f"{provider}/{name}", "api_base": upstream, "api_key": "none"}}
        for name in models
    ]
    config = folder / "litellm.yaml"
    # JSON is YAML as well.
    config.write_text(json.dumps({"model_list": listed}))
    environ = {
        **os.environ,
        # Nothing is asked of anyone else: no price list, no telemetry.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MASTER_KEY": _KEY,
    }
    command = (str(PROGRAM), "--config", str(config), "--port", str(port), "--host", "127.0.0.1")
    with serving(*command, port=port, environ=environ) as pid:
        yield Proxy(port, _KEY, pid)
