"""The bytes of every kind, fixed: what another program relies on. `python -m tests.proto.test_golden` writes new ones."""

import json
from pathlib import Path

import pytest

from proto import frame, schema
from proto.messages import KINDS
from tests.proto.samples import SAMPLES

GOLDEN = Path(__file__).parents[1] / "golden" / "frames.json"


def test_every_kind_has_a_sample_and_golden_bytes() -> None:
    assert set(SAMPLES) == set(KINDS) == set(json.loads(GOLDEN.read_text()))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_bytes_of_a_kind_are_golden_and_decode_to_it(kind: str) -> None:
    data = bytes.fromhex(json.loads(GOLDEN.read_text())[kind])
    assert frame.pack(SAMPLES[kind]) == data
    assert frame.body_length(data[:4]) == len(data) - 4
    assert frame.Decoder([KINDS[kind]]).decode(data[4:]) == SAMPLES[kind]


def test_every_version_of_every_kind_has_its_line() -> None:
    assert schema.missing() == [], "the wire changed: run `make fix`, and say so in the changelog"


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    rows = {kind: frame.pack(SAMPLES[kind]).hex() for kind in sorted(SAMPLES)}
    GOLDEN.write_text(json.dumps(rows, indent=1) + "\n")
