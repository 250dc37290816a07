"""Ends a process at its n-th step on the disk, as far as one process can: what was done stays, what was not is not."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from memoryd import files

STEPS = ("fsync", "write", "rename", "link", "unlink", "truncate", "ftruncate")


class Crash(BaseException):
    """The end of the process. No `except Exception` may see it."""


class Steps:
    """Counts the steps, and ends before the one that is `last`; a write is done by half then."""

    def __init__(self, last: int | None) -> None:
        self.count = 0
        self.names: list[str] = []
        self._last = last

    def step(self, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        self.names.append(name)
        if self.count == self._last:
            if name == "write":
                call(args[0], bytes(args[1])[: len(args[1]) // 2])
            raise Crash(f"{self.count}: {name} {args}")
        return call(*args, **kwargs)


@contextmanager
def crash_at(last: int | None) -> Iterator[Steps]:
    """Within the block, step `last` ends it; None only counts."""
    steps = Steps(last)
    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, _counted(steps, name, getattr(os, name)))
        patch.setattr(files, "exchange", _counted(steps, "exchange", files.exchange))
        try:
            yield steps
        except Crash:
            assert last is not None


def _counted(steps: Steps, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        return steps.step(name, call, *args, **kwargs)

    return counted
