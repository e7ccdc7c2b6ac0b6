"""What is known of a process or of a symbol that is collected, and what is accepted of it. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from penstock.errors import BadProcess, mask_urls

BEAT_S = 30.0
"""How often an entry is written while its status stays the same."""
LONGEST_NAME, _LONGEST_MESSAGE, LARGEST_PARAMS = 200, 300, 4096


class ProcessType(StrEnum):
    """What an entry stands for: the collection of one symbol's ticks, or a kind of process.

    A kind of process is the command that starts it.
    """

    TICK = "tick"
    TICKERS = "tickers"
    COLLECT = "collect"
    FETCH = "fetch"
    WORK = "work"
    INGEST = "ingest"
    KEEP = "keep"
    SERVE = "serve"
    BUS = "bus"
    SIM = "sim"
    UP = "up"


class ProcessStatus(StrEnum):
    """How it is."""

    STARTING = "starting"
    RUNNING = "running"
    ERROR = "error"
    STOPPED = "stopped"


class ProcessInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry."""

    process_id: str
    process_type: ProcessType
    component: str
    """What it is, unique among those of its type: ``sim:BTC/USDT``, or the name of a process."""
    status: ProcessStatus
    message: str = ""
    params: dict[str, Any] = {}
    host: str = ""
    pid: int = 0
    started_ms: int = 0
    """When it was registered, by the clock of its machine."""
    age_ms: int = 0
    """The time since its last report, by the store's clock. Not stored, as is the next."""
    stale: bool = False
    """Whether it missed three beats: it ended without saying so, or hangs."""

    @property
    def active(self) -> bool:
        return not self.stale and self.status is not ProcessStatus.STOPPED


class Registration(Struct, frozen=True, kw_only=True):
    """What is registered; see ``ProcessCache.register_process``."""

    process_type: ProcessType
    component: str
    params: Mapping[str, Any] = {}
    message: str = ""
    status: ProcessStatus = ProcessStatus.STARTING


class ProcessReport(Struct, frozen=True, kw_only=True):
    """How a process is; what is None is as before."""

    process_id: str
    status: ProcessStatus | None = None
    message: str | None = None
    params: Mapping[str, Any] | None = None


class Outcome(StrEnum):
    """What became of a report."""

    WRITTEN = "written"
    NOT_DUE = "not_due"
    """The status is the same, and the last report was written less than a beat ago."""
    TAKEN_OVER = "taken_over"
    """Another process has registered the component since."""
    UNKNOWN = "unknown"
    """No such process is registered, or it was removed."""


def is_due(
    written: ProcessStatus, status: ProcessStatus, since_ms: int, beat_s: float = BEAT_S
) -> bool:
    """Whether a report is written, so long after the last one that was."""
    return status != written or since_ms >= beat_s * 1000


def key_of(registration: Registration) -> str:
    """The key of its entry.

    Raises:
        BadProcess: its type or its component is invalid.
    """
    # Fields are not validated when it is made.
    process_type: object = registration.process_type
    component: object = registration.component
    if process_type not in list(ProcessType):
        raise BadProcess("process_type", f"is one of {', '.join(ProcessType)}")
    if not isinstance(component, str) or not component.strip() or not component.isprintable():
        raise BadProcess("component", "is a text that can be printed")
    if len(component) > LONGEST_NAME:
        raise BadProcess("component", f"has at most {LONGEST_NAME} characters")
    return f"{registration.process_type}:{component}"


def checked_status(status: ProcessStatus) -> ProcessStatus:
    """Return a status, if it is one.

    Raises:
        BadProcess: it is none.
    """
    if status not in list(ProcessStatus):
        raise BadProcess("status", f"is one of {', '.join(ProcessStatus)}")
    return ProcessStatus(status)


def checked_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as they are stored.

    Raises:
        BadProcess: JSON cannot hold them, or they are too large.
    """
    try:
        encoded = msgspec.json.encode(params)
        found = msgspec.json.decode(encoded, type=dict[str, Any])
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise BadProcess("params", "is an object of values that JSON can hold") from error
    if len(encoded) > LARGEST_PARAMS:
        raise BadProcess("params", f"has at most {LARGEST_PARAMS} bytes as JSON")
    return found


def shortened(message: str) -> str:
    """Return a message without passwords, so that an entry stays small."""
    masked = mask_urls(str(message))
    return masked if len(masked) <= _LONGEST_MESSAGE else masked[:_LONGEST_MESSAGE] + "…"
