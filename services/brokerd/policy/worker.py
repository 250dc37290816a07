"""The worker: a small process that holds one loaded policy (`python -I -m brokerd.policy.worker`, see `role.worker`).

Messages are JSON. The first loads (`{"modules": [[name, text]]}`), each later one asks (`{"ask": n, "entrypoint": …,
"term": JSON text}`). brokerd ends it by SIGKILL when an answer takes too long.
"""

import json
import sys
from typing import Any

from brokerd.policy.engine import Engine, EngineError, InputError
from proto.role.confined import serve


class _Policy:
    """The policy, once it is loaded."""

    def __init__(self) -> None:
        self._engine: Engine | None = None

    def answer(self, request: bytes) -> bytes:
        return json.dumps(self._answer(json.loads(request)), ensure_ascii=False).encode()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._engine is None:
            try:
                self._engine = Engine([(name, text) for name, text in request["modules"]])
            except EngineError as error:
                return {"problem": str(error)}
            return {"problem": None}
        try:
            return {"ask": request["ask"], "answer": self._engine.ask(request["entrypoint"], request["term"])}
        except InputError:
            # The engine would keep the input before it: this worker must not be asked again.
            sys.exit(1)


if __name__ == "__main__":
    # No limit of address space: the engine's allocator reserves 256 GiB of it. None of processor time: it stays.
    sys.exit(serve(_Policy().answer, cpu_s=None, memory_bytes=None))
