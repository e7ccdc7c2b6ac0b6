"""A process that records trades in a log and publishes them on the bus, at a steady rate.

Asked: folder, trades a second, seconds. It waits for the bus, says ``publishing``, and in the end
how many it recorded and what became of them on the bus.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from penstock.clock import SystemClock
from penstock.config import Collect, Settings
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.publish.zeromq import ZeroMqPublisher
from penstock.runtime.recording import RecordingProcess

_TICK_S = 0.01


def trade(number: int) -> Trade:
    return Trade(
        exchange="toy", symbol=Symbol("BTC", "USDT"), received_at_ns=number, id=number, at_ns=1,
        price_text="61250.10", quantity_text="0.00120", taker="buy",
    )  # fmt: skip


async def main(folder: Path, rate: int, seconds: float) -> None:
    clock, settings = SystemClock(), Settings(collect=Collect(data_dir=str(folder)))
    async with RecordingProcess("toy", settings, clock) as process:
        process.own_slot("toy")
        recorder, publishers = process.open_recorder()
        [publisher] = publishers
        assert isinstance(publisher, ZeroMqPublisher)
        while not publisher._listen():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        print("publishing", flush=True)
        recorded, started = 0, time.monotonic()
        while (passed := time.monotonic() - started) < seconds:
            due = int(passed * rate)
            await recorder.record([trade(n) for n in range(recorded + 1, due + 1)])
            recorded = due
            await asyncio.sleep(_TICK_S)
        # Long enough for an announcement, should the last messages have been dropped.
        await asyncio.sleep(2.5)
        counts = publisher.counts
    print(
        json.dumps(
            {
                "recorded": recorded,
                "published": counts.published,
                "dropped": counts.dropped,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
