"""loopd.toml."""

import pytest

from loopd.config import Config
from proto.faults import Fault
from proto.role.config import parse


def test_every_setting_has_a_default() -> None:
    config = parse("", "loopd.toml", Config)
    assert (config.model.destination, config.model.name) == ("local", "smollm2-135m-instruct")
    assert (config.turn.rounds, config.turn.refusals, config.turn.text_bytes) == (24, 3, 262144)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[model]\nnmae = "x"\n', "loopd.toml, line 2: model.nmae: unknown key"),
        ("[model]\ncontext_tokens = 10\n", "loopd.toml, line 2: model.context_tokens: Expected `int` >= 1024"),
        ("[turn]\nrounds = 0\n", "loopd.toml, line 2: turn.rounds: Expected `int` >= 1"),
    ],
)
def test_an_error_names_file_line_and_key(text: str, message: str) -> None:
    with pytest.raises(Fault) as caught:
        parse(text, "loopd.toml", Config)
    assert (caught.value.code, caught.value.message) == ("config-invalid", message)
