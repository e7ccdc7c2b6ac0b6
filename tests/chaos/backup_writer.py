"""A process that records at a rate until it is ended: ``backup_writer.py FOLDER RATE``.

Trades and changes of books of ten markets, as a collector receives them. It prints how many are
recorded, twice a second.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from itertools import count, islice

from msgspec import Raw

from penstock.clock import SystemClock
from penstock.config import Collect, Publish, Settings
from penstock.market.events import BookDelta, Event, Trade
from penstock.market.symbol import Symbol
from penstock.runtime.recording import RecordingProcess
from penstock.runtime.status import Report

SYMBOLS = [Symbol(f"C{number}", "USDT") for number in range(10)]
BATCH = 100


def events() -> Iterator[Event]:
    """For ever, one trade and one change of the book of each market in turn."""
    for number in count(1):
        for symbol in SYMBOLS:
            now_ns = time.time_ns()
            yield Trade(
                exchange="binance",
                symbol=symbol,
                id=number,
                received_at_ns=now_ns,
                at_ns=now_ns,
                price_text=f"{60_000 + number % 997}.{number % 100:02}",
                quantity_text=f"0.{1 + number % 9973:05}",
                taker="buy" if number % 2 else "sell",
            )
            yield BookDelta(
                exchange="binance",
                symbol=symbol,
                first_update_id=number,
                final_update_id=number,
                received_at_ns=now_ns,
                at_ns=now_ns,
                bids_raw=Raw(b'[["%d.%02d","0.%05d"]]' % (60_000, number % 100, number % 9973)),
                asks_raw=Raw(b"[]"),
            )


async def main(folder: str, rate: str) -> None:
    settings = Settings(collect=Collect(data_dir=folder), publish=Publish(urls=()))
    async with RecordingProcess("collect", settings, SystemClock()) as process:
        process.own_slot("collect-binance")
        await process.open_state()
        recorder, _ = process.open_recorder()
        process.running(lambda: Report(doing="recording"))
        began, done, told, source = time.monotonic(), 0, 0.0, events()
        while True:
            await recorder.record(list(islice(source, BATCH)))
            done += BATCH
            now = time.monotonic()
            if now - told > 0.5:
                told = now
                print(done, flush=True)
            # What it is late it does not make up for: that would hide a pause.
            due = began + done / float(rate)
            began += max(0.0, now - due)
            await asyncio.sleep(max(0.0, due - now))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
