"""The providers with whose models loopd can talk, and how a model is named.

All of them answer OpenAI's chat completions at `<base_url>/v1/chat/completions`. Where they are, and how calls are
authorised there, stands in `starter/destinations.toml`.
"""

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from proto.escape import clip
from proto.faults import Fault
from proto.rules import Rules

VARIABLE: Final = "BOXMAKER_MODEL"
"""Names the model of new sessions for one start of the box: `<destination>/<model>`."""
LOCAL: Final = "local"
_CHAT: Final = "openai-chat"
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
LOCAL_MODEL: Final = "smollm2-135m-instruct"
LOCAL_SOCKET: Final = "unix:run/egress-model/model.sock"


class Provider(NamedTuple):
    """A provider: its name as a destination, and what loopd must know to talk with a model of it."""

    name: str
    context_tokens: int = 128_000
    output_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


PROVIDERS: Final = (
    Provider("openai", output_field="max_completion_tokens"),
    Provider("anthropic", context_tokens=200_000),
    Provider("xai"),
    Provider("meta", context_tokens=1_000_000),
    Provider("mistral"),
    Provider("deepseek", context_tokens=64_000),
    Provider("groq"),
    Provider("dashscope"),
    Provider("openrouter"),
    Provider("ollama", context_tokens=8_192),
    Provider("llmao"),
)

HOW_TO_NAME: Final = """\
To use a real provider, name its model and have its key in the environment:

  OPENAI_API_KEY=… BOXMAKER_MODEL=openai/gpt-5 bxctl run    (or: make run)

or for good: in config/loopd.toml, under the [model] that is there, set these (no second [model]);
the key goes into credentials.env:

  destination = "openai"
  name = "gpt-5"
  context_tokens = 128000
  output_field = "max_completion_tokens"
  auth = "key"

`bxctl destinations` lists the providers; grants.toml is where another is added."""


class Choice(NamedTuple):
    """A model: the destination that serves it, and what the destination calls it."""

    destination: str
    model: str

    def __str__(self) -> str:
        """As the variable has it."""
        return f"{self.destination}/{self.model}"


def chosen(environ: Mapping[str, str]) -> Choice | None:
    """The model that the environment names.

    Raises:
        Fault: `config-invalid`: the variable has not the form `<destination>/<model>`.

    """
    text = environ.get(VARIABLE)
    if not text:
        return None
    destination, slash, model = text.partition("/")
    if not (destination and slash and model):
        shown = clip(text, 80)
        raise Fault("config-invalid", f"{VARIABLE}={shown}: must be <destination>/<model>, such as openai/gpt-5")
    return Choice(destination, model)


def model_of(home: Path, environ: Mapping[str, str]) -> Choice:
    """The model of new sessions: what the environment names, or what loopd's configuration in a home does.

    Raises:
        Fault: `config-invalid`.

    """
    if choice := chosen(environ):
        return choice
    model = read_toml(loopd_toml(home), "config/loopd.toml").get("model")
    model = model if isinstance(model, dict) else {}
    return Choice(str(model.get("destination", LOCAL)), str(model.get("name", LOCAL_MODEL)))


def loopd_toml(home: Path) -> str:
    """The text of loopd's configuration in a home; empty when there is none.

    Raises:
        Fault: `config-invalid`: it cannot be read.

    """
    path = home / "config" / "loopd.toml"
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Fault("config-invalid", f"{path}: cannot be read: {error}") from None


def check(choice: Choice, rules: Rules) -> None:
    """Refuse a model whose destination grants.toml does not have, or that loopd cannot talk with.

    Raises:
        Fault: `destination-unknown`, with the lines to add where the provider is known; `config-invalid`.

    """
    shown = clip(choice.destination, 80)
    if destination := rules.destinations.get(choice.destination):
        if _CHAT not in destination.apis:
            apis = ", ".join(destination.apis)
            raise Fault("config-invalid", f"{VARIABLE} names {shown}, which answers {apis}; loopd speaks {_CHAT}")
        return
    known = destination_toml(choice.destination)
    names = ", ".join(sorted(rules.destinations)) or "none"
    advice = f"add to it:\n\n{known}" if known else f"it has {names}"
    raise Fault("destination-unknown", f"{VARIABLE} names {shown}, which grants.toml has not; {advice}")


def destinations_toml() -> str:
    """The destinations of a new home: the embedded model, providers, logins, a gateway."""
    return (files("bxctl.starter") / "destinations.toml").read_text(encoding="utf-8")


def destination_toml(name: str) -> str | None:
    """The section of grants.toml for a destination that is known."""
    sections = destinations_toml().split("\n\n")
    found = next((one for one in sections if f"[destinations.{name}]" in one.splitlines()), None)
    return None if found is None else f"{found.rstrip()}\n"


def configured(settings_toml: str, choice: Choice, rules: Rules) -> str:
    """The text of loopd's configuration with the chosen model in it; what the owner set for the model itself stays.

    Raises:
        Fault: `config-invalid`: the owner's file is no TOML.

    """
    settings = read_toml(settings_toml, "config/loopd.toml")
    model = settings.get("model")
    before = dict(model) if isinstance(model, dict) else {}
    if before.get("destination", LOCAL) != choice.destination:
        before = {}
    provider = next((one for one in PROVIDERS if one.name == choice.destination), None)
    destination = rules.destinations.get(choice.destination)
    ours: dict[str, Any] = {}
    if provider:
        ours = {"context_tokens": provider.context_tokens, "output_field": provider.output_field}
    if destination and (auth := next((one for one in destination.auths if one != "subscription"), "none")) != "none":
        ours["auth"] = auth
    settings["model"] = {**ours, **before, "destination": choice.destination, "name": choice.model}
    return f"# Written by bxctl from config/loopd.toml and {VARIABLE} at each start.\n{to_toml(settings)}"


def read_toml(text: str, name: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises:
        Fault: `config-invalid`, with the file's name.

    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Fault("config-invalid", f"{name}: not TOML: {error}") from None


def to_toml(tables: Mapping[str, Any], prefix: str = "") -> str:
    """TOML of nested tables whose values are texts, numbers, booleans and lists of them."""
    values = {name: value for name, value in tables.items() if not isinstance(value, Mapping)}
    text = "".join(f"{_key(name)} = {_value(value)}\n" for name, value in values.items())
    for name, value in tables.items():
        if isinstance(value, Mapping):
            path = f"{prefix}{_key(name)}"
            text += f"\n[{path}]\n{to_toml(value, f'{path}.')}"
    return text


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _value(key)


def _value(value: Any) -> str:
    # A JSON text, number, boolean or list of them is TOML too, but for DEL.
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
