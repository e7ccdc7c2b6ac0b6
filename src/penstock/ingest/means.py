"""What handlers work with, whatever they do: ways out to exchanges, their markets, the recorder."""

from dataclasses import dataclass
from typing import Protocol

from penstock.clock import Clock
from penstock.connectors.markets import Gateways
from penstock.exchanges.base import Info, SymbolMap
from penstock.recorder import Recorder


class SymbolMaps(Protocol):
    """What each exchange lists."""

    async def of(self, exchange_id: str) -> SymbolMap: ...

    async def refresh(self, exchange_id: str, info: Info) -> object:
        """Keep what an exchange has just announced."""
        ...


@dataclass(frozen=True)
class Means:
    """Everything a handler is given."""

    gateways: Gateways
    markets: SymbolMaps
    recorder: Recorder
    clock: Clock
