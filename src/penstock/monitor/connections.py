"""The WebSocket connections of all collectors and ticker daemons, as they reported them last."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from penstock.runtime.reports import ConnectionReport
from penstock.runtime.status import SeenProcess, looked_up, read_processes
from penstock.storage.state import StateStore

State = Literal["connecting", "connected", "reconnecting", "closing", "closed"]


class EventView(Struct, frozen=True, kw_only=True):
    """A connection was opened or closed."""

    at_ms: int
    what: Literal["opened", "closed"]
    reason: str
    """Why it was closed, or why it replaced another one."""


class ConnectionView(Struct, frozen=True, kw_only=True):
    """One connection."""

    exchange: str
    process: str
    """The name of the process; two machines may have one of the same name."""
    host: str
    connection: str
    """Its name, unique in the process."""
    state: State
    """``closed`` also if its process ended or is gone."""
    since_ms: int | None
    """When it was opened, or lost; of a process that is gone, its last report."""
    messages: int | None
    """Received since it was opened first; null if a library reads the socket."""
    messages_per_s: float | None
    last_message_ms: int | None
    asked: int
    """Streams that are subscribed to."""
    acked: int | None
    """Streams of these that the exchange has acknowledged; null if a library subscribes."""
    limit_age_ms: int | None
    """The age at which the exchange closes it; null if it does not."""
    reconnects: int
    """How often it was lost, or could not be opened, since its process started."""
    events: tuple[EventView, ...]
    """The last 50 of the last 24 hours, the newest last."""


class Connections(Struct, frozen=True, kw_only=True):
    """All connections, by exchange, process and name."""

    items: tuple[ConnectionView, ...]


async def connections(store: StateStore) -> Connections:
    """The connections of all processes.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    return connections_of(looked_up(await read_processes(store)))


def connections_of(processes: Iterable[SeenProcess]) -> Connections:
    """The connections that these processes reported."""
    found = [_view(seen, each) for seen in processes for each in seen.status.connections]
    key = [(each.exchange, each.process, each.host, _order(each.connection)) for each in found]
    ordered = sorted(zip(key, range(len(found)), strict=True))
    return Connections(items=tuple(found[at] for _, at in ordered))


def _order(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split(".") if part.isdecimal())


_STATES: dict[str, State] = {
    "connecting": "connecting",
    "connected": "connected",
    "reconnecting": "reconnecting",
    "leaving": "closing",
}


def _view(seen: SeenProcess, found: ConnectionReport) -> ConnectionView:
    status = seen.status
    ended = seen.gone or status.state in ("stopped", "failed")
    state: State = "closed" if ended else _STATES.get(found.state, "closed")
    # Of a connection that was closed before its process ended, the time of that is known.
    was_open = found.state in ("connected", "leaving")
    since_ms = status.at_ms if ended and was_open else found.since_ms
    return ConnectionView(
        exchange=found.exchange,
        process=status.name,
        host=status.host,
        connection=found.name,
        state=state,
        since_ms=since_ms,
        messages=found.messages,
        messages_per_s=0.0 if ended and found.messages is not None else found.messages_per_s,
        last_message_ms=found.last_message_ms,
        asked=found.asked,
        acked=_acked(found, state),
        limit_age_ms=found.lifetime_ms,
        reconnects=found.reconnects,
        events=tuple(
            EventView(at_ms=each.at_ms, what=each.what, reason=each.reason) for each in found.events
        ),
    )


def _acked(found: ConnectionReport, state: State) -> int | None:
    if state != "connected":
        return 0
    return None if found.messages is None else max(0, found.asked - found.pending)
