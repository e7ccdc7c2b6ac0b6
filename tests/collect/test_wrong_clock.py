"""A machine whose clock is wrong by decades: everything is recorded, once, and holes are known."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from penstock.app.collector import open_collector
from penstock.app.simulator import build_simulator
from penstock.clock import Clock, SystemClock
from penstock.collect.absences import Absences
from penstock.collect.status import CollectorStatus, read_status
from penstock.config import Collect, Exchanges, Settings, Simulator
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream, id_of_key

SLOT = "collect-binance"
YEAR_NS = 365 * 86_400 * 1_000_000_000
TRADES = Stream("binance", "trades", "btc_usdt")


class WrongClock(SystemClock):
    """The system's clock, set to another time of day."""

    def __init__(self, begin_ns: int) -> None:
        super().__init__()
        self._off_ns = begin_ns - time.time_ns()

    def now_ns(self) -> int:
        return super().now_ns() + self._off_ns

    def now_ms(self) -> int:
        return self.now_ns() // 1_000_000


async def collect(wanted: Settings, clock: Clock, least: int) -> None:
    """One life of a collector, until it has recorded so many trades more."""
    async with open_collector(wanted, "binance", clock) as collector:
        stop = asyncio.Event()
        running = asyncio.create_task(collector.run(["btc_usdt"], stop))
        async with asyncio.timeout(PATIENCE_S):
            while (
                sum(
                    each.records
                    for each in collector.reporter.status("running").streams
                    if each.channel == "trades"
                )
                < least
            ):
                assert not running.done(), "it ended by itself"
                await asyncio.sleep(0.02)
            stop.set()
            await running


@pytest.mark.parametrize("begin_ns", [86_400_000_000_000, 130 * YEAR_NS], ids=["1970", "2100"])
async def test_a_clock_that_is_wrong_for_a_while_loses_and_doubles_nothing(
    tmp_path: Path, begin_ns: int
) -> None:
    server = build_simulator(
        Simulator(port=0, symbols=("btc_usdt",), uplink_ms=0, latency_ms=1), SystemClock()
    )
    await server.start()
    urls = {"binance": f"http://{server.address}"}
    wanted = Settings(
        collect=Collect(data_dir=str(tmp_path), channels=("trades",), liveness=False),
        exchanges=Exchanges(rest_urls=urls, stream_urls=urls),
    )
    try:
        for clock in (SystemClock(), WrongClock(begin_ns), SystemClock()):
            await collect(wanted, clock, 3)
    finally:
        await server.stop()

    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as log:
        found = [id_of_key(each.key) for each in log.numbers(TRADES, SLOT, 1)]
    numbers = [number for number in found if number is not None]
    assert len(numbers) == len(set(numbers))
    status = read_status(tmp_path, SLOT)
    assert status is not None
    [ids] = status.ids
    assert set(numbers) == set(spread(ids.seen))
    assert set(spread(ids.missing)) >= set(range(min(numbers), max(numbers))) - set(numbers)


def spread(runs: list[tuple[int, int]]) -> Iterator[int]:
    return (number for first, last in runs for number in range(first, last + 1))


def test_a_status_of_the_future_does_not_hide_an_absence() -> None:
    symbol, log, absences = Symbol("BTC", "USDT"), open_log("memory:"), Absences("toy")
    second_ns = 1_000_000_000
    trade = Trade(
        exchange="toy", symbol=symbol, received_at_ns=5 * second_ns, id=1, at_ns=1,
        price_text="1", quantity_text="1", taker="buy",
    )  # fmt: skip
    future = CollectorStatus(
        exchange="toy", slot="collect-toy", pid=1, started_ms=0, at_ms=4_102_444_800_000,
        state="running", connection="connected",
    )  # fmt: skip
    with closing(log.writer("collect-toy")) as writer, closing(log.reader()) as reader:
        writer.append([trade])
        absences.resume(future, reader)

    [mark] = absences.markers_at_start([("trades", symbol)], 60 * second_ns)
    assert mark.since_ns == 5 * second_ns
