"""The document of all processes that ran lately."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from penstock.monitor.rates import RateSampler, Reading
from penstock.runtime.status import ChildStatus, Health, SeenProcess, State


class ProcessView(Struct, frozen=True, kw_only=True):
    """One process. Times are those of its machine's clock."""

    id: str
    kind: str
    """The command that started it."""
    name: str
    host: str
    pid: int
    folder: str
    state: State
    health: Health
    gone: bool
    """Whether it should be running and is not."""
    doing: str
    exchanges: list[str]
    """The exchanges of which it receives data."""
    messages_per_s: float | None
    started_ms: int
    last_data_ms: int | None
    silent_ms: int
    """Time since its last status, by the state store's clock."""
    problems: list[str]
    restarts: int | None
    """How often its supervisor has started it again; None if it has none."""
    children: list[ChildStatus]


class Processes(Struct, frozen=True, kw_only=True):
    """All processes, by machine, folder and name."""

    items: list[ProcessView]


def processes_of(seen: Sequence[SeenProcess], rates: RateSampler) -> Processes:
    """All processes, with their rates and how often they were restarted."""
    restarts = {
        (each.status.host, child.pid): child.restarts
        for each in seen
        for child in each.status.children
        if child.pid is not None
    }
    return Processes(items=[_view(each, rates, restarts) for each in seen])


def _view(
    seen: SeenProcess, rates: RateSampler, restarts: Mapping[tuple[str, int], int]
) -> ProcessView:
    status = seen.status
    return ProcessView(
        id=seen.id,
        kind=status.kind,
        name=status.name,
        host=status.host,
        pid=status.pid,
        folder=status.folder,
        state=status.state,
        health=status.health,
        gone=seen.gone,
        doing=status.doing,
        exchanges=[each.exchange for each in status.exchanges],
        messages_per_s=rates.process_rate(seen.id),
        started_ms=status.started_ms,
        last_data_ms=status.last_data_ms,
        silent_ms=max(0, seen.silent_ms),
        problems=status.problems,
        restarts=restarts.get((status.host, status.pid)),
        children=status.children,
    )


def readings_of(seen: Iterable[SeenProcess]) -> list[Reading]:
    """What the processes that run have counted."""
    return [
        Reading(
            each.id,
            found.exchange,
            each.status.started_ms,
            each.status.at_ms if found.counted_ms is None else found.counted_ms,
            found.messages,
        )
        for each in seen
        if each.status.exchanges and not each.gone and each.status.state == "running"
        for found in each.status.exchanges
    ]
