"""A backup of a store in use has every record, and its restored copy equals it."""

from pathlib import Path

import pytest
from tests.backup.making.conftest import HOUR_NS, World, trades
from tests.backup.test_archive import tree

import penstock
from penstock.backup.folder import list_backups, read_rehearsal
from penstock.backup.restore import restore
from penstock.backup.snapshot import Snapshot


def ids(folder: Path) -> list[int]:
    data = penstock.open(folder)
    return sorted(data.trades(on_gap="ignore").polars()["id"].to_list())


async def test_a_backup_of_a_store_in_use_has_every_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = await world.collector()
    await recorder.record(trades(1, 500, age_ns=3 * HOUR_NS))
    await recorder.sync()
    await world.keep()
    await recorder.record(trades(501, 600))
    copied: dict[str, bytes] = {}
    monkeypatch.setattr(Snapshot, "remove", lambda self: copied.update(tree(self.folder)))

    made = await world.back_up()

    restore(made.written.path, world.data.parent / "restored")
    restored = tree(world.data.parent / "restored")
    assert restored == copied
    assert {path.split("/")[0] for path in restored} == {"bus", "lake", "log", "state.db"}
    assert ids(world.data.parent / "restored") == list(range(1, 601))
    assert made.rehearsal is not None
    assert made.rehearsal.verified, made.rehearsal
    assert made.rehearsal.compared["records"] > 0
    assert read_rehearsal(made.written.path) == made.rehearsal
    [listed] = list_backups(world.backups)
    assert (listed.name, listed.verified) == (made.written.path.name, True)
