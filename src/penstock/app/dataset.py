"""Opens collected data to read, for programs and for commands."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.extras import installed_with
from penstock.clock import Clock
from penstock.config import Settings

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset


def open(  # noqa: A001 (it is used as penstock.open)
    where: str | Path,
    *,
    state_url: str | None = None,
    lake_url: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> "Dataset":
    """Open collected data to read: a data folder, or a lake by its folder or URL.

    A data folder has a log, a state store and perhaps a lake. ``state_url`` and ``lake_url`` name
    those that are elsewhere; ``storage_options`` are those of an object store. Collectors may run
    meanwhile, and nothing is changed.

    Example::

        import penstock

        data = penstock.open("penstock-data")
        frame = data.trades("BTC/USDT", since="-1h").polars()

    Raises:
        NoDataset: there is nothing to read.
        MissingExtra: the libraries of the extra ``lake`` are not installed.
    """
    with installed_with("lake"):
        from penstock.dataset.opening import open_place  # noqa: PLC0415
    return open_place(
        where, state_url=state_url, lake_url=lake_url, storage_options=storage_options
    )


def configured_dataset(settings: Settings, clock: Clock) -> "Dataset":
    """The data that the settings name: log, lake and state store.

    Raises:
        NoDataset: there is nothing to read.
        MissingExtra: the libraries of the extra ``lake`` are not installed.
    """
    with installed_with("lake"):
        from penstock.dataset.opening import open_place  # noqa: PLC0415
    return open_place(
        settings.collect.data_dir,
        state_url=settings.state.url or None,
        lake_url=settings.storage.lake_url or None,
        storage_options=settings.storage.lake_options,
        clock=clock,
    )
