"""What `bxctl up` would run: commands, environments, and the model that is named."""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bxctl import providers
from bxctl.providers import Choice
from bxctl.supervise.plan import SAFE, Plan, environment, plan
from proto.faults import Fault
from tests.bxctl.conftest import Bxctl

SECRETS = {
    "OPENAI_API_KEY": "sk-1",
    "ANTHROPIC_API_KEY": "sk-2",
    "GITHUB_TOKEN": "t",
    "AWS_SECRET_ACCESS_KEY": "s",
    "DB_PASSWORD": "p",
}
PLAIN = {"PATH": "/bin", "HOME": "/h", "LANG": "C.UTF-8", "BOXMAKER_LOG": "debug", "TZ": "UTC"}


@pytest.fixture
def made(bxctl: Bxctl, home: Path) -> Path:
    """A home that init has made."""
    assert bxctl("init").code == 0
    return home


def _program(plan: Plan, name: str) -> Any:
    (found,) = [program for program in plan.programs if program.name == name]
    return found


def test_four_daemons_and_the_embedded_model_run_without_a_provider(made: Path) -> None:
    found = plan(made, PLAIN)
    assert [program.name for program in found.programs] == ["boxmaker-model", "memoryd", "brokerd", "egressd", "loopd"]
    assert found.model == Choice("local", "smollm2-135m-instruct")
    assert found.rendered is None
    for name in ("memoryd", "brokerd", "egressd", "loopd"):
        config = ("--config", str(made / "config" / f"{name}.toml"))
        assert _program(found, name).command == (
            sys.executable,
            "-P",
            "-m",
            name,
            "serve",
            "--home",
            str(made),
            *config,
        )


def test_a_config_that_is_not_there_is_not_named(made: Path) -> None:
    (made / "config" / "memoryd.toml").unlink()
    assert "--config" not in _program(plan(made, PLAIN), "memoryd").command


def test_keys_reach_egressd_alone_and_there_only_those_that_grants_toml_names(made: Path) -> None:
    for program in plan(made, {**PLAIN, **SECRETS, "NOTIFY_SOCKET": "/n"}).programs:
        named = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"} if program.name == "egressd" else set()
        assert set(program.environ) == {*PLAIN, *named, "PYTHONSAFEPATH"}, program.name


def test_where_traces_go_is_egressds_alone_to_know(made: Path) -> None:
    traces = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer x",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/key.pem",
    }
    for program in plan(made, {**PLAIN, **traces}).programs:
        passed = traces if program.name == "egressd" else {}
        assert program.environ == {**PLAIN, **passed, "PYTHONSAFEPATH": "1"}, program.name


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,12}", fullmatch=True), st.text(max_size=5)))
def test_nothing_that_looks_like_a_key_passes(environ: dict[str, str]) -> None:
    passed = environment(environ)
    assert passed.items() <= environ.items() | {SAFE}
    assert not [name for name in passed for word in ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL") if word in name]


def test_no_program_looks_for_modules_where_bxctl_was_called(made: Path) -> None:
    leading = {
        "PYTHONPATH": ".",
        "PYTHONHOME": "/x",
        "PYTHONSTARTUP": "x.py",
        "PYTHONWARNINGS": "error::x.Y",
        "PYTHONSAFEPATH": "",
    }
    for program in plan(made, {**PLAIN, **leading}).programs:
        assert program.command[:3] == (sys.executable, "-P", "-m")
        assert program.environ == {**PLAIN, "PYTHONSAFEPATH": "1"}


def test_the_variable_names_the_model_and_the_embedded_one_stays_away(made: Path) -> None:
    found = plan(made, {**PLAIN, "BOXMAKER_MODEL": "openai/gpt-5"})
    assert [program.name for program in found.programs] == ["memoryd", "brokerd", "egressd", "loopd"]
    assert found.model == Choice("openai", "gpt-5")
    assert found.rendered is not None
    path, text = found.rendered
    assert path == made / "state" / "bxctl" / "loopd.toml"
    assert _program(found, "loopd").command[-2:] == ("--config", str(path))
    assert tomllib.loads(text) == {
        **tomllib.loads((made / "config/loopd.toml").read_text()),
        "model": {
            "destination": "openai",
            "name": "gpt-5",
            "context_tokens": 128_000,
            "output_field": "max_completion_tokens",
            "auth": "key",
        },
    }
    assert "openai" not in (made / "config/loopd.toml").read_text()


def test_two_lines_of_configuration_name_it_too(made: Path) -> None:
    (made / "config/loopd.toml").write_text('[model]\ndestination = "xai"\nname = "grok-4"\n')
    found = plan(made, PLAIN)
    assert (found.model, found.rendered) == (Choice("xai", "grok-4"), None)
    assert "boxmaker-model" not in [program.name for program in found.programs]


def test_what_the_owner_set_for_that_destination_stays(made: Path) -> None:
    (made / "config/loopd.toml").write_text(
        '[model]\ndestination = "openai"\nname = "a"\ncontext_tokens = 9000\n[turn]\nrounds = 3\n'
    )
    for chosen, tokens in (("openai/b", 9000), ("xai/b", 128_000)):
        found = plan(made, {"BOXMAKER_MODEL": chosen})
        assert found.rendered is not None
        settings = tomllib.loads(found.rendered[1])
        assert (settings["model"]["context_tokens"], settings["turn"]) == (tokens, {"rounds": 3})


def test_a_model_may_have_slashes_in_its_name() -> None:
    assert providers.chosen({"BOXMAKER_MODEL": "openrouter/x/y:free"}) == Choice("openrouter", "x/y:free")


@pytest.mark.parametrize("text", ["openai", "/gpt-5", "openai/"])
def test_a_variable_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(Fault, match="must be <destination>/<model>, such as openai/gpt-5") as raised:
        providers.chosen({"BOXMAKER_MODEL": text})
    assert raised.value.code == "config-invalid"


def test_a_known_provider_that_grants_toml_has_not_comes_with_the_lines_to_add(made: Path) -> None:
    (made / "grants.toml").write_text("")
    with pytest.raises(Fault) as raised:
        plan(made, {"BOXMAKER_MODEL": "mistral/large"})
    assert raised.value.code == "destination-unknown"
    assert str(providers.destination_toml("mistral")) in raised.value.message
    (made / "grants.toml").write_text(raised.value.message.split("\n\n")[1])
    assert plan(made, {"BOXMAKER_MODEL": "mistral/large"}).model.destination == "mistral"


def test_an_unknown_destination_is_refused_by_name(made: Path) -> None:
    with pytest.raises(Fault, match="BOXMAKER_MODEL names nobody, which grants.toml has not; it has anthropic, "):
        plan(made, {"BOXMAKER_MODEL": "nobody/x"})


def test_a_local_that_is_the_owners_own_server_is_not_run(made: Path) -> None:
    (made / "grants.toml").write_text('[destinations.local]\nbase_url = "http://127.0.0.1:8080"\n')
    assert "boxmaker-model" not in [program.name for program in plan(made, PLAIN).programs]


@pytest.mark.parametrize("name", ["grants.toml", "config/loopd.toml"])
def test_a_file_that_is_no_toml_is_named(made: Path, name: str) -> None:
    (made / name).write_text("[model\n")
    with pytest.raises(Fault, match=name) as raised:
        plan(made, {})
    assert raised.value.code == "config-invalid"


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
TABLES = st.recursive(
    st.dictionaries(st.text(max_size=6), VALUES, max_size=3),
    lambda inner: st.dictionaries(st.text(max_size=6), VALUES | inner, max_size=3),
    max_leaves=6,
)


@given(TABLES)
def test_what_is_written_as_toml_is_read_as_it_was(tables: dict[str, Any]) -> None:
    assert tomllib.loads(providers.to_toml(tables)) == tables


def test_the_environment_of_this_process_is_left_alone(made: Path) -> None:
    before = dict(os.environ)
    plan(made, os.environ)
    assert dict(os.environ) == before
