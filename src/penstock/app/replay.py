"""Builds replays from settings."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from penstock.app.extras import installed_with
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.playback.player import Replay
from penstock.playback.sources import RecordSource
from penstock.runtime.stores import configured_log, existing_lake, is_lake, local_folder

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def replay(
    streams: str | Sequence[str] = (),
    *,
    data_dir: str | Path | None = None,
    since: datetime | int | None = None,
    until: datetime | int | None = None,
    speed: float | None = None,
    settings: Settings | None = None,
) -> Replay:
    """Replay what was recorded: iterate over it, with ``for`` or ``async for``.

    A stream is a name (``sim.trades.btc_usdt``), a name with ``*`` for any text, or a prefix that
    ends with a dot; without any, all streams are replayed. Records are in the order in which
    they were received. ``since`` and ``until`` are receive times: nanoseconds, or a time that is in
    UTC unless it has an offset. ``speed`` is 1 for the speed of the recording, 10 for ten times
    that; without it, records come as fast as they are taken. ``data_dir`` is a data folder with a
    log and perhaps a lake, or a lake by its folder or URL.

    Example: for record in penstock.replay("binance.trades.*", data_dir="data"): print(record.event)

    Raises:
        BadSpeed: the speed is not a number above zero.
        ConfigError: the URL of the log is invalid.
        MissingExtra: there is a lake, and the libraries of the extra ``lake`` are not installed.
    """
    settings = settings or Settings()
    if data_dir is not None:
        settings = replace(settings, collect=replace(settings.collect, data_dir=str(data_dir)))
    return Replay(
        record_source(settings),
        [streams] if isinstance(streams, str) else streams,
        since_ns=_ns(since),
        until_ns=_ns(until),
        speed=speed,
        clock=SystemClock(),
    )


def record_source(settings: Settings) -> Callable[[], RecordSource]:
    """Returns what opens the records that the settings name: the log, and the lake if there is one.

    Raises:
        ConfigError: the URL of the log is invalid.
        MissingExtra: there is a lake, and the libraries of the extra ``lake`` are not installed.
    """
    where, options = settings.collect.data_dir, settings.storage.lake_options
    folder = local_folder(where)
    if folder is None or is_lake(folder):
        log, url = None, where if folder is None else str(folder)
    else:
        log, found = configured_log(settings), existing_lake(folder, settings.storage.lake_url)
        if found is None:
            return log.reader
        url = found
    with installed_with("lake"):
        from penstock.dataset.cold import Cold  # noqa: PLC0415
        from penstock.dataset.received import LogAndLake  # noqa: PLC0415
    return lambda: LogAndLake(log, Cold(url, options))


def _ns(at: datetime | int | None) -> int | None:
    if not isinstance(at, datetime):
        return at
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
