"""Markers of a lost connection: one for each symbol that came by it and by no other way."""

from collections.abc import Iterable, Sequence

from penstock.market.events import Cause, Disconnect
from penstock.market.symbol import Symbol


class Disconnects:
    """What is delivered when everything that was subscribed to stops coming."""

    def __init__(
        self, exchange: str, subscribed: Iterable[tuple[str, Sequence[Symbol]]] = ()
    ) -> None:
        """``subscribed`` are channels with their symbols. Without a name there are no markers."""
        self._exchange = exchange
        self._channels: dict[Symbol, tuple[str, ...]] = {}
        for channel, symbols in subscribed if exchange else ():
            for symbol in symbols:
                self._channels[symbol] = (*self._channels.get(symbol, ()), channel)

    def mark(
        self,
        reason: str,
        at_ns: int,
        since_ns: int | None = None,
        cause: Cause = "disconnected",
    ) -> list[Disconnect]:
        """The markers of a loss that was noticed at this instant, and began at the other."""
        return [
            Disconnect(
                exchange=self._exchange,
                symbol=symbol,
                received_at_ns=at_ns,
                channels=channels,
                reason=reason,
                since_ns=since_ns,
                cause=cause,
            )
            for symbol, channels in self._channels.items()
        ]
