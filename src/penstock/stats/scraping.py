"""Reads the metrics of all processes that share the data folder, and how the fleet's are."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from penstock.runtime.status import SeenProcess, this_machine
from penstock.stats.fleet import is_expected, is_up, named
from penstock.stats.merging import ProcessText
from penstock.stats.sockets import read_from, socket_file

_TIMEOUT_S = 3.0
"""Time in which each process has to send its metrics; all are asked at the same time."""


class Scraped(NamedTuple):
    """The processes of the fleet, and the metrics of those that could be read."""

    processes: Mapping[str, SeenProcess]
    """By name in metrics."""
    texts: Sequence[ProcessText]
    own: str
    """The name of this process."""
    read: Collection[str]
    """The names of all processes whose metrics were read, with this one."""


class FleetScraper:
    """Scrapes the processes of a fleet. For one event loop."""

    def __init__(self, folder: Path, timeout_s: float = _TIMEOUT_S) -> None:
        self._folder, self._timeout_s = folder, timeout_s
        self._last: Sequence[SeenProcess] = ()

    async def scrape(self, seen: Sequence[SeenProcess] | None) -> Scraped:
        """Read the metrics of these processes; None: of those that were known last."""
        self._last = seen if seen is not None else self._last
        processes = named(self._last)
        files: dict[tuple[str, int], str] = {}
        own = "serve"
        for name, each in processes.items():
            place = _place(each)
            if place == this_machine():
                own = name
            elif is_expected(each):
                # One process may have several statuses; it is asked once.
                files.setdefault(place, name)
        texts = await asyncio.gather(
            *(self._read(name, processes[name], place) for place, name in files.items())
        )
        found = [text for text in texts if text is not None]
        places = {_place(processes[each.process]) for each in found} | {this_machine()}
        read = {name for name, each in processes.items() if _place(each) in places}
        return Scraped(processes, found, own, read)

    async def _read(
        self, name: str, seen: SeenProcess, place: tuple[str, int]
    ) -> ProcessText | None:
        # The folder may be mounted elsewhere here than where the process runs.
        for folder in dict.fromkeys((self._folder, Path(seen.status.folder))):
            try:
                text = await read_from(socket_file(folder, *place), self._timeout_s)
            except TimeoutError:
                break  # it hangs
            except OSError:
                continue
            return ProcessText(name, text)
        return None


def _place(seen: SeenProcess) -> tuple[str, int]:
    return seen.status.host, seen.status.pid


def processes_text(scraped: Scraped) -> bytes:
    """How the processes of the fleet are, in Prometheus' text format."""
    registry = CollectorRegistry()
    labels = ["process", "kind"]
    gauges = {
        name: Gauge(f"penstock_process_{name}", words, labels, registry=registry)
        for name, words in (
            ("up", "Whether a process runs, by its status in the state store."),
            ("scraped", "Whether its metrics are in this text."),
            ("problems", "Problems that it reports now."),
            ("start_timestamp_seconds", "When it was started."),
            ("last_data_timestamp_seconds", "When it last recorded, forwarded or sent data."),
        )
    }
    for name, seen in scraped.processes.items():
        for gauge, value in _values(name, seen, scraped.read):
            gauges[gauge].labels(name, seen.status.kind).set(value)
    return generate_latest(registry)


def _values(name: str, seen: SeenProcess, read: Collection[str]) -> Iterator[tuple[str, float]]:
    status = seen.status
    yield "up", is_up(seen)
    if name in read or status.host == this_machine()[0]:  # others are out of reach
        yield "scraped", name in read
    yield "problems", len(status.problems)
    yield "start_timestamp_seconds", status.started_ms / 1000
    if status.last_data_ms is not None:
        yield "last_data_timestamp_seconds", status.last_data_ms / 1000
