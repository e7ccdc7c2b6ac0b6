"""The owner of a slot copies it when a backup asks, and only then."""

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.backup.test_archive import tree
from tests.events import trade

from penstock.clock import SystemClock
from penstock.errors import StoreUnreachable
from penstock.runtime.checkpoints import (
    Checkpointer,
    ask_checkpoint,
    checkpoint_folder,
    read_request,
)
from penstock.runtime.facts import CheckpointFailed, CheckpointMade
from penstock.storage.log import LogWriter, open_log
from penstock.storage.state import StateStore, open_store

SLOT, LOG_ID = "collect-toy", 7


@pytest.fixture
async def store() -> AsyncIterator[StateStore]:
    opened = await open_store("memory:")
    yield opened
    await opened.close()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogWriter]:
    with closing(open_log(f"rocksdb:{tmp_path}").writer(SLOT)) as opened:
        opened.append([trade(1)])
        yield opened


async def answered(
    store: StateStore, writer: LogWriter, folder: Path, facts: list[Any]
) -> dict[str, Any]:
    owner = Checkpointer(writer, LOG_ID, folder, SystemClock(), facts.append)
    await owner.answer(store)
    found = await read_request(store, LOG_ID, SLOT)
    return found or {"state": ""}


async def test_a_slot_is_copied_once_on_request(
    store: StateStore, writer: LogWriter, tmp_path: Path
) -> None:
    facts: list[Any] = []
    assert (await answered(store, writer, tmp_path, facts))["state"] == ""
    for backup in ("one", "two"):
        await ask_checkpoint(store, LOG_ID, SLOT, backup, 10)
        assert (await answered(store, writer, tmp_path, facts))["state"] == "made"
        await answered(store, writer, tmp_path, facts)
        assert (checkpoint_folder(tmp_path, backup, SLOT) / "CURRENT").is_file()

    assert [fact.backup for fact in facts if isinstance(fact, CheckpointMade)] == ["one", "two"]


async def test_a_copy_is_made_known_although_the_store_did_not_answer_before(
    store: StateStore, writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(*_: object) -> None:
        raise StoreUnreachable("memory:", "does not answer")

    facts: list[Any] = []
    await ask_checkpoint(store, LOG_ID, SLOT, "one", 10)
    with monkeypatch.context() as patched:
        patched.setattr(store, "write", write)
        with pytest.raises(StoreUnreachable):
            await answered(store, writer, tmp_path, facts)

    assert (await answered(store, writer, tmp_path, facts))["state"] == "made"
    assert [type(fact) for fact in facts] == [CheckpointMade]


async def test_a_backup_that_waits_no_longer_gets_nothing(
    store: StateStore, writer: LogWriter, tmp_path: Path
) -> None:
    await ask_checkpoint(store, LOG_ID, SLOT, "late", 0)

    assert (await answered(store, writer, tmp_path, []))["state"] == "asked"
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize("backup", ["../../evil", "/tmp/evil", "", ".", "a/b"])
async def test_no_request_writes_elsewhere(
    store: StateStore, writer: LogWriter, tmp_path: Path, backup: str
) -> None:
    before = tree(tmp_path)
    await ask_checkpoint(store, LOG_ID, SLOT, backup, 10)

    found = await answered(store, writer, tmp_path, [])

    assert (found["state"], found["problem"]) == ("failed", "the name of the backup is invalid")
    assert tree(tmp_path).keys() == before.keys()


async def test_a_copy_that_fails_is_reported(
    store: StateStore, writer: LogWriter, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    facts: list[Any] = []
    await ask_checkpoint(store, LOG_ID, SLOT, "one", 10)

    found = await answered(store, writer, tmp_path, facts)

    assert found["state"] == "failed"
    assert found["problem"]
    assert isinstance(facts[0], CheckpointFailed)
    writer.append([trade(2)])


async def test_an_answer_that_was_lost_is_given_again(
    store: StateStore, writer: LogWriter, tmp_path: Path
) -> None:
    """The store did not take the answer, or the owner was restarted before it gave one."""
    await ask_checkpoint(store, LOG_ID, SLOT, "one", 10)
    writer.checkpoint(checkpoint_folder(tmp_path, "one", SLOT))

    assert (await answered(store, writer, tmp_path, []))["state"] == "made"
