"""`bxctl prices`: what an import takes of LiteLLM's format, what stays the owner's, and that egressd can read it."""

import hashlib
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bxctl import pricelist
from egressd.prices import read
from proto.messages.egress import ModelRow, Models, ModelsReply
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes

LIST = Path(__file__).parent / "data" / "pricelist.json"
OWN = '# mine\n[models."small-1"]\ninput = 9\noutput = 9 # dear\n'


@pytest.fixture
def box(bxctl: Bxctl) -> Bxctl:
    assert bxctl("init").code == 0
    return bxctl


def test_an_import_takes_what_has_prices_per_token(box: Bxctl, home: Path) -> None:
    result = box("prices", "import", str(LIST), "--yes")
    assert (result.code, result.err) == (0, "")
    table = read(home / "prices.toml")
    assert set(table.models) == {"small-1", "large-1", "xai/rock-1", "rock-1", "reseller/large-1"}
    large = table.models["large-1"]
    assert (large.input, large.output) == (Decimal(3), Decimal(15))
    assert (large.cache_read, large.cache_write, large.cache_write_1h) == (Decimal("0.3"), Decimal("3.75"), Decimal(6))
    assert (table.models["small-1"].input, table.models["small-1"].cache_read) == (Decimal("0.15"), None)
    digest = hashlib.sha256(LIST.read_bytes()).hexdigest()
    assert f"sha256 {digest}, 5 models taken, 7 entries without a price\n" in result.out
    assert "prices: 5 new, 0 changed, 0 no longer there; 0 of your own kept\n" in result.out
    assert (table.source or "").startswith(f"LiteLLM's price list, sha256 {digest}, imported 20")
    assert stat.S_IMODE((home / "prices.toml").stat().st_mode) == 0o600


def test_the_owners_own_entries_stay_and_an_import_replaces_an_import(box: Bxctl, home: Path, tmp_path: Path) -> None:
    path = home / "prices.toml"
    path.write_text(OWN)
    assert "1 of your own kept" in box("prices", "import", str(LIST), "--yes").out
    first = path.read_text()
    assert OWN.strip() in first
    assert read(path).models["small-1"].input == 9
    assert (home / "prices.toml.bak").read_text() == OWN
    assert box("prices", "import", str(LIST), "--yes").code == 0
    assert path.read_text() == first
    assert (home / "prices.toml.bak").read_text() == first
    told = box("prices", "import", str(LIST), "--only", "large", "--only", "rock", "--yes", "--json").json
    assert told["models"] == "prices: 0 new, 0 changed, 2 no longer there; 0 of your own kept"
    assert set(read(path).models) == {"small-1", "large-1", "rock-1"}
    assert path.read_text().count("source =") == 1


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        ("[]", (), "is not a map"),
        ("{", (), "is not JSON"),
        ("{}", (), "has no price of such a model"),
        (LIST.read_text(), ("--only", "nobody"), "has no price of such a model"),
    ],
)
def test_what_is_no_list_is_refused_and_nothing_is_written(
    box: Bxctl, home: Path, tmp_path: Path, text: str, words: tuple[str, ...], says: str
) -> None:
    before = (home / "prices.toml").read_text()
    (tmp_path / "list.json").write_text(text)
    result = box("prices", "import", str(tmp_path / "list.json"), "--yes", *words)
    assert (result.code, result.out) == (1, "")
    assert says in result.err
    assert (home / "prices.toml").read_text() == before
    assert not (home / "prices.toml.bak").exists()


def test_a_damaged_prices_toml_is_not_written_over(box: Bxctl, home: Path) -> None:
    (home / "prices.toml").write_text("[models.a\n")
    result = box("prices", "import", str(LIST), "--yes")
    assert (result.code, result.out) == (1, "")
    assert "prices.toml: not TOML" in result.err
    assert (home / "prices.toml").read_text() == "[models.a\n"


def test_nothing_is_written_without_a_yes(box: Bxctl, home: Path) -> None:
    before = (home / "prices.toml").read_text()
    result = box("prices", "import", str(LIST))
    assert result.code == 1
    assert "nothing is written without --yes" in result.err
    assert (home / "prices.toml").read_text() == before


names = st.text("abc-./:@+", min_size=1, max_size=8)
amounts = st.decimals("0.000000001", "0.01", places=12)


@given(st.dictionaries(names, st.tuples(amounts, amounts, st.none() | amounts), max_size=5), st.booleans())
def test_what_is_written_is_what_was_listed(listed: dict[str, Any], owned: bool) -> None:
    """The text is TOML, and every price in it is that of the list, to the digit."""
    import json
    import tempfile

    fields = ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")
    entries = ", ".join(
        f"{json.dumps(name)}: {{"
        + ", ".join(f'"{field}": {price}' for field, price in zip(fields, prices, strict=True) if price is not None)
        + "}"
        for name, prices in listed.items()
    )
    models = pricelist.read(f"{{{entries}}}".encode()).models
    text = pricelist.joined(OWN if owned else "", models, 'a "source"\n\x00')
    assert pricelist.joined(text, models, 'a "source"\n\x00') == text
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prices.toml"
        path.write_text(text)
        table = read(path)
    for name, prices in models.items():
        assert (table.models[name].input, table.models[name].cache_read) == (prices["input"], prices.get("cache_read"))
        if name in listed:
            assert prices["input"] == listed[name][0] * 10**6


ROW = ModelRow(
    destination="acme", model="m-2026", priced_as="m", input="0.15", output="0.6", cache_read=None, cache_write="1"
)


def test_the_prices_in_force_are_listed_once_each(bxctl: Bxctl, fakes: Fakes) -> None:
    import msgspec

    other = msgspec.structs.replace(ROW, model="m", destination=None)
    unpriced = msgspec.structs.replace(ROW, model="x", priced_as=None, input=None)
    reply = ModelsReply(models=[ROW, other, unpriced], source="a list", problem=None)
    fakes.answer("owner-egress", Models, reply)
    with fakes.serving():
        result = bxctl("prices")
        for_scripts = bxctl("prices", "--json").json
    assert result.code == 0
    assert [line.split() for line in result.out.splitlines()[1:]] == [
        ["m", "0.15", "0.6", "-", "1"],
        ["from", "a", "list"],
    ]
    assert [row["model"] for row in for_scripts["prices"]] == ["m"]


def test_prices_that_cannot_be_read_are_a_problem(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer("owner-egress", Models, ModelsReply(models=[], source=None, problem="line 3: models.a"))
    with fakes.serving():
        result = bxctl("prices")
        models = bxctl("models")
    assert (result.code, models.code) == (4, 4)
    assert "line 3: models.a (runbook: prices-invalid)" in result.err
    assert "until it is mended no model has a price (runbook: prices-invalid)" in models.err
