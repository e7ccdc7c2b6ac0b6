"""Finds the market that a viewer names among what was collected."""

from collections.abc import Collection

from penstock.dataset.names import find_streams
from penstock.errors import NoData
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

Market = tuple[str, Symbol]
"""An exchange and a symbol."""


def find_market(streams: Collection[Stream], exchange: str, symbol: str) -> Market:
    """The market of this name, with its symbol in any spelling but the exchange's own.

    Raises:
        NotCollected: there is none; it has near matches.
        NoData: nothing was collected at all.
    """
    if not streams:
        raise NoData("Nothing was collected yet. Begin with: penstock collect, or penstock demo")
    channels = {each.channel for each in streams}
    found = find_streams(streams, channels, symbol, exchange, lambda _: {})
    return found[0].exchange, Symbol.parse(found[0].symbol)
