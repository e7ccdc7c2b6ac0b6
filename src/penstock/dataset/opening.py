"""Opens a data folder, or a lake alone, as a dataset."""

from collections.abc import Mapping
from pathlib import Path

from penstock.clock import Clock, SystemClock
from penstock.dataset.cold import Cold
from penstock.dataset.dataset import Dataset
from penstock.dataset.reading import Places
from penstock.dataset.source import Source
from penstock.dataset.state import StateReader
from penstock.errors import NoDataset
from penstock.runtime.stores import existing_lake, is_lake, local_folder
from penstock.storage.log import EventLog, open_log

_STATE = "state.db"


def open_place(
    where: str | Path,
    *,
    state_url: str | None = None,
    lake_url: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Dataset:
    """Open a data folder, or the lake at a URL or in a folder. See ``penstock.open``.

    Raises:
        NoDataset: there is nothing to read.
    """
    clock = clock or SystemClock()
    text = str(where)
    folder = local_folder(text)
    if folder is None:
        lake = Cold(text, storage_options)
        if not lake.streams():
            raise NoDataset(text, "there is no lake with records")
        return make_dataset(text, None, lake, state_url, clock)
    if not folder.is_dir():
        problem = "it is a file, not a folder" if folder.exists() else "there is no such folder"
        raise NoDataset(str(folder), problem)
    if is_lake(folder):
        return make_dataset(str(folder), None, Cold(str(folder)), state_url, clock)
    has_log = (folder / "log").is_dir()
    lake_url = existing_lake(folder, lake_url)
    if not has_log and lake_url is None:
        raise NoDataset(str(folder), "there are no collected data in this folder")
    if state_url is None and (folder / _STATE).is_file():
        state_url = f"sqlite:{folder / _STATE}"
    log = open_log(f"rocksdb:{folder}") if has_log else None
    found = Cold(lake_url, storage_options) if lake_url is not None else None
    return make_dataset(str(folder), log, found, state_url, clock)


def make_dataset(
    where: str, log: EventLog | None, lake: Cold | None, state_url: str | None, clock: Clock
) -> Dataset:
    """The dataset in these places."""
    state = StateReader(state_url, clock) if state_url is not None else None
    return Dataset(Source(Places(log, lake), state, clock), where)
