"""What a session's prompt begins with, saved once and replayed byte for byte (M5a sections 4 and 9)."""

from importlib.resources import files
from typing import Any, Literal, NamedTuple

import msgspec

from loopd.config import Model
from loopd.tools.catalogue import CORE
from proto.labels import DataClass, Label


class Baseline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`0.baseline.json`: the system prompt, the tools array, and the model that the session is held with."""

    time: str
    session: str
    destination: str
    model: str
    auth: Literal["subscription", "key", "gateway", "none"]
    context_tokens: int
    send_reasoning: bool
    system: str
    tools: list[dict[str, Any]]
    principal: str = "owner"
    """Who began it: the owner at a terminal, or a user of Mattermost."""
    principal_class: DataClass = DataClass.SECRET
    """The highest class that this principal may see."""


class Origin(NamedTuple):
    """A session that is not begun by the owner at a terminal: its id, who begins it, and the label it begins with."""

    session: str
    principal: str
    principal_class: DataClass
    label: Label


def assemble(session: str, time: str, model: Model, block: str, origin: Origin | None = None) -> Baseline:
    """The baseline of a new session: system.md, a blank line, the memory block; and the core tools."""
    instructions = files("loopd").joinpath("system.md").read_text(encoding="utf-8").strip()
    return Baseline(
        time=time,
        session=session,
        destination=model.destination,
        model=model.name,
        auth=model.auth,
        context_tokens=model.context_tokens,
        send_reasoning=model.send_reasoning,
        system=f"{instructions}\n\n{block}",
        tools=list(CORE),
        principal=origin.principal if origin else "owner",
        principal_class=origin.principal_class if origin else DataClass.SECRET,
    )


def context_tokens(baseline: Baseline, model: Model) -> int:
    """The size of the session's context: the configured one, unless that speaks of another model by now."""
    same = (baseline.destination, baseline.model) == (model.destination, model.name)
    return model.context_tokens if same else baseline.context_tokens
