"""run/owner-egress/admin.sock: what was used and what it cost, which models there are, where bytes may go,
and egressd's part of a backup.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Final, assert_never

import anyio.to_thread

from egressd.auth import is_ready
from egressd.catalogue import models
from egressd.credentials import Credentials
from egressd.prices import Price, Prices, priced_as
from egressd.relay import Relaying
from egressd.store import UsageStore
from proto.faults import Fault
from proto.messages import egress, wire
from proto.role.backup import send
from proto.role.clock import parse, stamp
from proto.role.serve import Connection

_EVER: Final = "0001-01-01T00:00:00Z"
_PRICES: Final = ("input", "output", "cache_read", "cache_write")
_MOST_MODELS: Final = 2_000
"""Of an answer, which is one frame."""


Request = egress.Usage | egress.Cost | egress.Models | egress.Destinations | wire.Backup
Reply = egress.UsageReply | egress.CostReply | egress.ModelsReply | egress.DestinationsReply | wire.BackupEnd


class OwnerDesk:
    """Answers the owner."""

    def __init__(
        self, credentials: Credentials, store: UsageStore, prices: Prices, relaying: Relaying, home: Path
    ) -> None:
        self._destinations = relaying.destinations
        self._credentials = credentials
        self._store = store
        self._prices = prices
        self._relaying = relaying
        self._home = home

    async def __call__(self, request: Request, connection: Connection) -> Reply:
        """Answer one request."""
        match request:
            case egress.Usage():
                since = _since(request.since)
                return egress.UsageReply(rows=self._store.used(since, request.session, by_day=request.by_day))
            case egress.Cost():
                rows, total_nusd = self._store.costs(_since(request.since), request.session)
                return egress.CostReply(rows=rows, total_nusd=total_nusd, problem=self._prices.problem)
            case egress.Models():
                return await self._models(request.destination)
            case egress.Destinations():
                return self._all()
            case wire.Backup():
                copied = await anyio.to_thread.run_sync(self._store.copied, self._home)
                return await send(connection, self._home, "egressd", [copied])
            case _:
                assert_never(request)

    async def _models(self, destination: str | None) -> egress.ModelsReply:
        table = self._prices.table()
        if destination is None:
            used: list[tuple[str | None, str]] = list(self._store.models())
            named = {model for _, model in used}
            names = [*used, *((None, model) for model in sorted(table) if model not in named)][:_MOST_MODELS]
        else:
            place = self._destinations.find(destination)
            names = [(destination, model) for model in await models(place, self._credentials, self._relaying)]
        return egress.ModelsReply(
            models=[_priced(place, model, table) for place, model in names],
            source=self._prices.source,
            problem=self._prices.problem,
        )

    def _all(self) -> egress.DestinationsReply:
        try:
            places = self._destinations.all()
        except Fault as fault:
            return egress.DestinationsReply(destinations=[], problem=fault.message.removeprefix("refused: "))
        rows = [
            egress.DestinationRow(
                destination=name,
                base_url=place.rule.base_url,
                apis=list(place.rule.apis),
                auths=list(place.rule.auths),
                ceiling=place.ceiling.value,
                credential=place.rule.credential,
                ready=is_ready(place, self._credentials),
                tunnels=list(place.rule.tunnels),
                hosted_tools=list(place.rule.hosted_tools),
            )
            for name, place in sorted(places.items())
        ]
        return egress.DestinationsReply(destinations=rows, problem=None)


def _priced(destination: str | None, model: str, table: Mapping[str, Price]) -> egress.ModelRow:
    name = priced_as(model, table)
    price = None if name is None else table[name]
    told = {field: None if price is None else _text(getattr(price, field)) for field in _PRICES}
    return egress.ModelRow(destination=destination, model=model, priced_as=name, **told)


def _text(price: Decimal | None) -> str | None:
    return None if price is None else f"{price:f}"


def _since(time: str | None) -> str:
    if time is None:
        return _EVER
    try:
        return stamp(parse(time))
    except (ValueError, OverflowError):
        raise Fault("frame-undecodable", "since is not a time such as 2026-09-24T00:00:00Z") from None
