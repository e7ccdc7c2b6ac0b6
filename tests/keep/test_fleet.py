"""Data folders of several machines in one lake."""

import asyncio
from contextlib import closing
from pathlib import Path
from secrets import token_hex

from deltalake import DeltaTable
from tests.keep.conftest import NOW_NS, SLOT, trades

from penstock.clock import ManualClock
from penstock.config import Settings
from penstock.keep.keeper import Keeper, KeeperServices
from penstock.market.channels import TRADES
from penstock.storage.lake import open_lake
from penstock.storage.lake.columns import records_of
from penstock.storage.lake.documents import read_all_seals
from penstock.storage.log import open_log
from penstock.storage.state import open_store


async def test_records_of_two_machines_meet_in_one_lake(
    tmp_path: Path, s3_options: dict[str, str]
) -> None:
    url, store, expected = f"s3://lake/{token_hex(4)}", await open_store("memory:"), set[bytes]()
    keepers = []
    for machine in (1, 2):
        log = open_log(f"rocksdb:{tmp_path / str(machine)}")
        with closing(log.writer(SLOT)) as writer:
            written = writer.append(trades(machine * 100, machine * 100 + 60))
            expected |= {each.record for each in written}
        services = KeeperServices(
            lake=open_lake(url, s3_options),
            log=log,
            log_id=machine,
            store=store,
            clock=ManualClock(NOW_NS // 1_000_000),
        )
        keepers.append(Keeper(services, Settings()))

    await asyncio.gather(*(keeper.seal_all() for keeper in keepers))

    assert [keeper.problems for keeper in keepers] == [{}, {}]
    table = DeltaTable(f"{url}/trades", storage_options=s3_options).to_pyarrow_table()
    assert sorted(records_of(TRADES, table)) == sorted(expected)
    states = {state.log_id: state.numbers for state in await read_all_seals(store)}
    assert states == {str(n): {"toy.trades.btc_usdt": 61} for n in (1, 2)}, "known to all"
    for keeper in keepers:
        keeper.close()
    await store.close()
