"""A session in a process of its own, which a test can stop: ``stoppable.py URL SILENCE_S``.

It writes a line for every trade it records and for every connection it loses.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence

from penstock.books.commands import FetchSnapshot
from penstock.clock import SystemClock
from penstock.collect.facts import ConnectionLost
from penstock.collect.session import Endpoint, Session, SessionHooks
from penstock.exchanges.binance.stream import BinanceDialect
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import BookSnapshot, Event, Trade
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Subscription
from penstock.streaming.shard import Shard
from penstock.telemetry import Fact

BTC = Symbol("BTC", "USDT")


async def record(events: Sequence[Event]) -> None:
    for event in events:
        if isinstance(event, Trade):
            print("trade", event.id, flush=True)


async def fetch_book(_: FetchSnapshot, __: Callable[[], bool]) -> BookSnapshot | None:
    return None


def emit(fact: Fact) -> None:
    if isinstance(fact, ConnectionLost):
        print("lost", fact.reason, flush=True)


async def main(url: str, silence_s: float) -> None:
    symbols = SymbolMap("binance", [("BTCUSDT", BTC)])
    wanted = [Subscription("trades", (BTC,))]
    shard = Shard("binance", lambda: BinanceDialect(symbols), wanted, lambda: 0.0)
    endpoint = Endpoint("binance", url, silence_s)
    session = Session(shard, endpoint, SessionHooks(record, fetch_book, emit), SystemClock())
    await session.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
