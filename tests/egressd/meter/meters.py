"""A reading of a body that comes cut."""

import itertools
from collections.abc import Iterable

from egressd.meter.usage import Usage
from egressd.routes import METERS
from proto.rules import ModelApi


def pieces(body: bytes, cuts: Iterable[int]) -> list[bytes]:
    """A body cut at places; a place behind its end is taken from its beginning."""
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return [body[start:stop] for start, stop in itertools.pairwise(places)]


def read(api: ModelApi, body: bytes, cuts: Iterable[int] = ()) -> tuple[Usage, str | None]:
    """The usage and the model that a meter finds in a body that comes cut."""
    meter = METERS[api]()
    for piece in pieces(body, cuts):
        meter.feed(piece)
    meter.end()
    return meter.usage, meter.model
