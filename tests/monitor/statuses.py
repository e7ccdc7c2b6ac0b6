"""Statuses of processes, for tests of the documents that show a fleet."""

from penstock.runtime.status import ExchangeActivity, ProcessStatus, SeenProcess

NOW_MS = 1_768_645_800_000


def activity(exchange: str = "binance", messages: int = 0, **fields: object) -> ExchangeActivity:
    """What a process receives: by default of 50 markets on two open connections."""
    given = {"markets": 50, "connections": 2, "connections_up": 2, **fields}
    return ExchangeActivity(exchange=exchange, messages=messages, **given)  # type: ignore[arg-type]


def seen(
    name: str = "collect-binance",
    *exchanges: ExchangeActivity,
    silent_ms: int = 500,
    kind: str = "",
    **fields: object,
) -> SeenProcess:
    """A process of another machine, which runs unless it is silent for too long."""
    given: dict[str, object] = {
        "kind": kind or name.partition("-")[0],
        "name": name,
        "host": "elsewhere",
        "pid": 1,
        "folder": "/data",
        "started_ms": NOW_MS - 3_600_000,
        "at_ms": NOW_MS - silent_ms,
        "state": "running",
        "last_data_ms": NOW_MS - silent_ms,
        "exchanges": list(exchanges),
        **fields,
    }
    return SeenProcess(f"id/{name}", ProcessStatus(**given), silent_ms)  # type: ignore[arg-type]
