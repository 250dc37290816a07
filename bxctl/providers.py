"""The model providers that `bxctl init` writes into grants.toml, and how a model is named.

All of them answer OpenAI's chat completions at `<base_url>/v1/chat/completions`. The credential is the variable that
the provider's own documents use; egressd alone sees its value.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from proto.escape import clip
from proto.faults import Fault
from proto.rules import Rules

VARIABLE: Final = "BOXMAKER_MODEL"
"""Names the model of new sessions for one start of the box: `<destination>/<model>`."""
LOCAL: Final = "local"
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
LOCAL_MODEL: Final = "smollm2-135m-instruct"
LOCAL_SOCKET: Final = "unix:run/egress-model/model.sock"


class Provider(NamedTuple):
    """A provider: its name as a destination, and what loopd must know to talk with a model of it."""

    name: str
    base_url: str
    credential: str | None
    context_tokens: int = 128_000
    output_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"


PROVIDERS: Final = (
    Provider("openai", "https://api.openai.com", "OPENAI_API_KEY", output_field="max_completion_tokens"),
    Provider("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", context_tokens=200_000),
    Provider("xai", "https://api.x.ai", "XAI_API_KEY"),
    Provider("mistral", "https://api.mistral.ai", "MISTRAL_API_KEY"),
    Provider("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY", context_tokens=64_000),
    Provider("groq", "https://api.groq.com/openai", "GROQ_API_KEY"),
    Provider("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode", "DASHSCOPE_API_KEY"),
    Provider("openrouter", "https://openrouter.ai/api", "OPENROUTER_API_KEY"),
    Provider("ollama", "http://127.0.0.1:11434", None, context_tokens=8_192),
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
    """Refuse a model whose destination grants.toml does not have.

    Raises:
        Fault: `destination-unknown`, with the lines to add where the provider is known.

    """
    if choice.destination in rules.destinations:
        return
    known = next((one for one in PROVIDERS if one.name == choice.destination), None)
    shown = clip(choice.destination, 80)
    names = ", ".join(sorted(rules.destinations)) or "none"
    advice = f"add to it:\n\n{destination_toml(known)}" if known else f"it has {names}"
    raise Fault("destination-unknown", f"{VARIABLE} names {shown}, which grants.toml has not; {advice}")


def destination_toml(provider: Provider) -> str:
    """The section of grants.toml for a provider."""
    lines = [f"[destinations.{provider.name}]", f'base_url = "{provider.base_url}"', 'ceiling = "private"']
    if provider.credential:
        lines.append(f'credential = "{provider.credential}"')
    return "\n".join(lines) + "\n"


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
    if destination and destination.credential:
        ours["auth"] = "key"
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
