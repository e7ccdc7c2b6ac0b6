"""A collector's coverage and gaps in the state store, against the simulator in the same process."""

from contextlib import closing
from pathlib import Path

import aiohttp

from penstock.coverage.ledger import Interval
from penstock.coverage.model import By
from penstock.coverage.reading import read_ledger, series_of
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream, id_of_key
from penstock.storage.state import open_store

from .test_collector import Simulate, collecting, settings, simulate, streaming, trades_after

__all__ = ["simulate"]


async def told(folder: Path) -> dict[tuple[str, By], list[Interval]]:
    store = await open_store(f"sqlite:{folder / 'state.db'}")
    try:
        found = series_of(await read_ledger(store))
    finally:
        await store.close()
    return {(each.channel, each.by): each.intervals for each in found}


async def test_after_a_cut_and_a_restart_the_ledger_equals_the_log(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = settings(server.address, tmp_path, book_every=60)
    async with collecting(wanted) as life:
        await life.until(streaming)
        async with aiohttp.ClientSession() as http:
            await http.post(f"http://{server.address}/_sim/disconnect")
        await life.until(lambda status: status.books[0].resyncs == 1)
        await life.until(streaming)
    last = life.collector.continuity.last(Stream("binance", "trades", "btc_usdt"))
    assert last is not None
    await trades_after(server, last)
    async with collecting(wanted) as life:
        await life.until(streaming)

    found = await told(tmp_path)
    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as log:
        keys = [each.key for each in log.scan(Stream("binance", "trades", "btc_usdt"))]
    recorded = {id_of_key(key) for key in keys}
    ids = found["trades", "id"]
    complete = {n for each in ids if each.state == "complete" for n in span(each)}
    missing = {n for each in ids if each.state == "gap" for n in span(each)}
    assert complete == recorded
    assert missing == set(range(ids[0].first, ids[-1].last + 1)) - complete
    away = [each for each in ids if each.state == "gap" and each.last > last]
    assert [(each.first, each.cause, each.origin) for each in away] == [
        (last + 1, "stopped", "ours"),
    ]  # fmt: skip
    # Books are known by time: complete, cut, complete, away, complete.
    assert [each.state for each in found["book_deltas", "received_ns"]] == [
        "complete", "unfillable", "complete", "unfillable", "complete",
    ]  # fmt: skip
    causes = [each.cause for each in found["book_deltas", "received_ns"]]
    assert causes == ["", "disconnected", "", "stopped", ""]


def span(each: Interval) -> range:
    return range(each.first, each.last + 1)


def forget_state(folder: Path) -> None:
    for file in folder.glob("state.db*"):
        file.unlink()


async def test_data_of_an_older_version_is_projected_once(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    wanted = settings(server.address, tmp_path)
    async with collecting(wanted) as life:
        await life.until(streaming)
    forget_state(tmp_path)
    async with collecting(wanted) as life:
        await life.until(streaming)

    with closing(open_log(f"rocksdb:{tmp_path}").reader()) as log:
        first = next(log.scan(Stream("binance", "trades", "btc_usdt")))
    found = await told(tmp_path)
    assert found["trades", "id"][0].first == id_of_key(first.key)
    assert found["book_deltas", "received_ns"][0].state == "complete"
