"""Absences: where ids do not tell what is missing, the log tells since when something may be."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests import events
from tests.forked import command
from tests.waiting import PATIENCE_S

from penstock.app.collector import open_collector
from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.collect.absences import Absences
from penstock.collect.collector import Collector
from penstock.collect.missing import interruptions
from penstock.collect.status import CollectorStatus, ShardStatus, read_status
from penstock.config import Collect, Exchanges, Settings, Simulator
from penstock.errors import NotOurRecord
from penstock.market.events import Disconnect, Event, Ticker, Ticker24h, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog, open_log
from penstock.storage.log.keys import Stream

SECOND_NS = 1_000_000_000
BTC, ETH = Symbol("BTC", "KRW"), Symbol("ETH", "KRW")
SLOT = "collect-toy"
STREAM_KEYS = [("trades", BTC), ("trades", ETH)]


def trade(at_s: int, symbol: Symbol = BTC) -> Trade:
    return events.trade(at_s * 1000, symbol, received_at_ns=at_s * SECOND_NS, at_ns=1)


def marker(at_s: int, reason: str, *channels: str) -> Disconnect:
    return Disconnect(
        exchange="toy", symbol=BTC, received_at_ns=at_s * SECOND_NS, channels=channels,
        reason=reason,
    )  # fmt: skip


def status(at_s: int, **changed: object) -> CollectorStatus:
    plain = CollectorStatus(
        exchange="toy", slot=SLOT, pid=1, started_ms=0, at_ms=at_s * 1000, state="running",
        connection="connected",
    )  # fmt: skip
    return replace(plain, **changed)


def after(before: CollectorStatus | None, *events: Event) -> Absences:
    """What a collector knows that begins where another recorded these."""
    log: EventLog = open_log("memory:")
    absences = Absences("toy")
    with closing(log.writer(SLOT)) as writer, closing(log.reader()) as reader:
        writer.append(events)
        absences.resume(before, reader)
    return absences


def told(markers: list[Disconnect]) -> list[tuple[str, str, float]]:
    return [(each.symbol.slug, each.reason, (each.since_ns or 0) / SECOND_NS) for each in markers]


KILLED, STOPPED = "not running: ended without stopping", "not running: stopped"


def test_what_was_recorded_before_and_is_collected_again_was_absent_since_its_last_record() -> None:
    markers = after(None, trade(5), trade(9)).markers_at_start(STREAM_KEYS, 20 * SECOND_NS)

    assert told(markers) == [("btc_krw", "not running", 9)], "the other was never collected"
    assert markers[0].received_at_ns == 20 * SECOND_NS
    assert markers[0].channels == ("trades",)


def test_a_quiet_stream_was_there_as_long_as_the_status_tells() -> None:
    assert told(after(status(15), trade(9)).markers_at_start(STREAM_KEYS, 20 * SECOND_NS)) == [
        ("btc_krw", KILLED, 14)
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"connection": "reconnecting"},
        {"pending": ["trade:KRW-BTC"]},
        {"stalled": ["trades btc_krw"]},
        {"shards": [ShardStatus(state="connected", members=[], waiting=3)]},
    ],
)
def test_a_status_that_tells_of_trouble_does_not_shorten_an_absence(
    changed: dict[str, object],
) -> None:
    absences = after(status(15, **changed), trade(9))

    assert told(absences.markers_at_start(STREAM_KEYS, 20 * SECOND_NS)) == [("btc_krw", KILLED, 9)]


def test_what_is_marked_as_absent_already_is_not_marked_again() -> None:
    absences = after(status(15, state="stopped"), trade(9), marker(10, "stopped", "trades"))
    assert absences.markers_at_start(STREAM_KEYS, 20 * SECOND_NS) == []

    came_back = after(status(15, state="stopped"), marker(7, "stopped", "trades"), trade(9))
    assert told(came_back.markers_at_start(STREAM_KEYS, 20 * SECOND_NS)) == [
        ("btc_krw", STOPPED, 9)
    ]

    another = after(None, trade(9), marker(10, "asked for anew", "book_deltas"))
    assert told(another.markers_at_start(STREAM_KEYS, 20 * SECOND_NS)) == [
        ("btc_krw", "not running", 9)
    ]


def ticker(at_s: int) -> Ticker:
    return events.ticker(at_s * SECOND_NS, BTC, last_text="1")


def ticker_24h(at_s: int) -> Ticker24h:
    head: dict[str, Any] = {"exchange": "toy", "symbol": BTC, "received_at_ns": at_s * SECOND_NS}
    return Ticker24h(**head, last_text="1")


def test_statistics_of_an_older_version_are_looked_for_among_the_tickers() -> None:
    both = [("tickers", BTC), ("tickers_24h", BTC)]
    older = after(None, ticker(5), ticker(6)).markers_at_start(both, 20 * SECOND_NS)
    assert [(each.channels, each.since_ns) for each in older] == [
        (("tickers", "tickers_24h"), 6 * SECOND_NS)
    ]

    newer = after(None, ticker(5), ticker_24h(7), ticker(9))
    found = newer.markers_at_start(both, 20 * SECOND_NS)
    assert [(each.channels, each.since_ns) for each in found] == [
        (("tickers",), 9 * SECOND_NS), (("tickers_24h",), 7 * SECOND_NS),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("recorded", "back_s"),
    [
        ([ticker(5), ticker(12)], 12),
        ([ticker(5), ticker_24h(14)], 14),
        ([ticker(5), ticker_24h(6), ticker(12), ticker_24h(14)], 14),
        ([ticker_24h(6), ticker(12)], None),
    ],
)
def test_an_interruption_ends_with_a_record_of_the_same_channel(
    recorded: list[Event], back_s: int | None
) -> None:
    log = open_log("memory:")
    log.writer(SLOT).append([*recorded, marker(10, "cut", "tickers_24h")])
    (found,) = interruptions(log.reader(), {("toy", "btc_krw")}, lambda _: ())

    assert found.channel == "tickers_24h"
    assert found.back_ns == (None if back_s is None else back_s * SECOND_NS)


def test_books_that_are_told_whole_are_looked_for_among_the_snapshots() -> None:
    absences = Absences("toy")
    absences._last_ns[Stream("toy", "book_snapshots", "btc_krw")] = 3 * SECOND_NS

    assert told(absences.markers([("book_deltas", BTC)], 20 * SECOND_NS)) == [
        ("btc_krw", "not collected", 3)
    ]


@asynccontextmanager
async def collecting(settings: Settings, *names: str) -> AsyncIterator[Collector]:
    async with open_collector(settings, "upbit", SystemClock()) as collector:
        stop = asyncio.Event()
        running = asyncio.create_task(collector.run(names, stop))
        try:
            await until(lambda: traded(collector.reporter.status("running"), *names))
            yield collector
        finally:
            stop.set()
            await running


def traded(found: CollectorStatus | None, *names: str) -> bool:
    streams = found.streams if found is not None else []
    return {*names} <= {each.symbol for each in streams if each.channel == "trades"}


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 (other processes set no event here)
            await asyncio.sleep(0.05)


def markers_of(folder: Path, slug: str) -> list[Disconnect]:
    with closing(open_log(f"rocksdb:{folder}").reader()) as log:
        found = [each.event for each in log.scan(Stream("upbit", "disconnects", slug))]
    return [each for each in found if isinstance(each, Disconnect)]


async def test_every_absence_of_a_market_without_consecutive_ids_is_in_the_log(
    tmp_path: Path,
) -> None:
    server = build_simulator(
        Simulator(port=0, uplink_ms=0, latency_ms=1), SystemClock(), exchange="upbit"
    )
    await server.start()
    btc, eth = "btc_krw", "eth_krw"
    urls = {"upbit": f"http://{server.address}"}
    settings = Settings(
        collect=Collect(data_dir=str(tmp_path), channels=("trades",)),
        exchanges=Exchanges(rest_urls=urls, stream_urls=urls),
    )
    address = f"upbit=http://{server.address}"
    environment = {
        "PENSTOCK_EXCHANGES_REST_URLS": address,
        "PENSTOCK_EXCHANGES_STREAM_URLS": address,
        "PENSTOCK_COLLECT_CHANNELS": "trades",
    }
    words = ["collect", "upbit", btc, eth, "--data-dir", str(tmp_path)]

    def said() -> CollectorStatus | None:
        try:
            return read_status(tmp_path, "collect-upbit")
        except NotOurRecord:
            return None

    try:
        process = command(
            words,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        await until(lambda: traded(said(), btc, eth))
        process.kill()
        process.wait()
        killed_ns, last = SystemClock().now_ns(), said()
        async with collecting(settings, btc, eth) as collector:
            (marker,) = markers_of(tmp_path, btc)
            collector.remove([eth])
            await until(lambda: len(markers_of(tmp_path, eth)) == 2)
            collector.add([eth])
        async with collecting(settings, btc):
            pass
    finally:
        await server.stop()

    assert (marker.reason, marker.channels) == (KILLED, ("trades",))
    assert marker.since_ns is not None
    assert last is not None
    assert last.at_ms * 1_000_000 - SECOND_NS <= marker.since_ns <= killed_ns
    assert killed_ns < marker.received_at_ns
    # After a stop the newest trades are asked for; if there were some, the absence began then.
    reasons = [each.reason for each in markers_of(tmp_path, btc) if each.reason != STOPPED]
    assert reasons == [KILLED, "stopped", "stopped"]
    # The market may be back for a moment before the stop, or not.
    reasons = [each.reason for each in markers_of(tmp_path, eth) if each.reason != "not collected"]
    assert reasons == [KILLED, "removed", "stopped"]
