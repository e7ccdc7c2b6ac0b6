"""What a collector costs while hardly anything happens: the processes that users run, 100 markets.

The stand-in for the exchange sends ten messages a second, so each market one every ten seconds:
half of them changes of books, a quarter best prices, a quarter trades. ``penstock collect`` (with
three channels of each market, 300 streams) does all that it does otherwise: status and ledger,
detection of silent streams, announcements on the bus. ``penstock bus`` has one subscriber to
everything. ``core_share`` is the CPU time of the collector's whole process over the time that
passed, ``rss_mb`` its memory at the end; ``bus_…`` the same of the broker.
"""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from bench._real import Market
from bench.inputs import binance

MARKETS, RATE = 100, 10
SETTLE, MEASURED = 300, 600
"""Messages while it starts and loads its books, and while it is measured."""


def main() -> Mapping[str, object]:
    """Run it once."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, ExitStack() as stack:
        inputs = binance.make_inputs(Path(folder, "idle"), SETTLE + MEASURED, markets=MARKETS)
        found = Market(stack, inputs).idle(SETTLE, SETTLE + MEASURED, RATE)
    return {**found, "markets": MARKETS, "messages_per_s": RATE}
