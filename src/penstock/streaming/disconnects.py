"""Markers of a lost connection, one for each symbol that no other connection delivers."""

from collections.abc import Iterable, Sequence

from penstock.market.events import Cause, Disconnect
from penstock.market.symbol import Symbol


class Disconnects:
    """Creates the markers that are delivered when all subscriptions are interrupted."""

    def __init__(
        self, exchange: str, subscribed: Iterable[tuple[str, Sequence[Symbol]]] = ()
    ) -> None:
        """``subscribed``: channels with their symbols. With no ``exchange``, no markers."""
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
        """Return the markers of a loss that was detected at ``at_ns`` and began at ``since_ns``."""
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
