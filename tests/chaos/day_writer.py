"""A process that records a day of 20 markets: ``day_writer.py FOLDER HOURS RATE``.

Trades and changes of books are generated, with received times that end about now, and recorded at
RATE records a second into a slot of the folder's log, as a collector does. At the end it prints how
many there were of each, and goes on to delete what the keeper allows until it is ended.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import islice

from msgspec import Raw

from penstock.clock import SystemClock
from penstock.config import Collect, Publish, Settings
from penstock.market.events import BookDelta, Event, Trade
from penstock.market.symbol import Symbol
from penstock.runtime.recording import RecordingProcess
from penstock.runtime.status import Report

SYMBOLS = [Symbol(f"C{number:02}", "USDT") for number in range(20)]
PER_SECOND = (Trade, BookDelta, BookDelta)
BATCH = 600
SECOND_NS = 1_000_000_000


def events(hours: float, end_ns: int) -> Iterator[Event]:
    """One trade and two changes of the book of each market, for every second of these hours."""
    seconds = round(hours * 3600)
    for second in range(seconds):
        at_ns = end_ns - (seconds - second) * SECOND_NS
        for which, symbol in enumerate(SYMBOLS):
            cents = (second * 7919 + which * 104_729) % 10_000
            yield Trade(
                exchange="binance",
                symbol=symbol,
                id=second + 1,
                received_at_ns=at_ns + which,
                at_ns=at_ns - 20_000_000,
                price_text=f"{60_000 + cents / 100:.2f}",
                quantity_text=f"0.{1 + cents:05}",
                taker="buy" if cents % 2 else "sell",
            )
            for update in (2 * second + 1, 2 * second + 2):
                levels = b'[["%d.%02d","0.%05d"]]' % (60_000 + cents, update % 100, update % 9973)
                yield BookDelta(
                    exchange="binance",
                    symbol=symbol,
                    first_update_id=update,
                    final_update_id=update,
                    received_at_ns=at_ns + which + update % 2 * SECOND_NS // 2,
                    at_ns=at_ns,
                    bids_raw=Raw(levels),
                    asks_raw=Raw(b"[]"),
                )


async def main(folder: str, hours: str, rate: str) -> None:
    settings = Settings(collect=Collect(data_dir=folder), publish=Publish(urls=()))
    async with RecordingProcess("collect", settings, SystemClock()) as process:
        process.own_slot("collect-binance")
        await process.open_state()
        recorder, _ = process.open_recorder()
        process.running(lambda: Report(doing="recording"))
        began, done = time.monotonic(), 0
        source = events(float(hours), time.time_ns())
        while batch := list(islice(source, BATCH)):
            await recorder.record(batch)
            done += len(batch)
            await asyncio.sleep(max(0.0, began + done / float(rate) - time.monotonic()))
        await recorder.sync()
        print(done, flush=True)
        await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
