"""A process to supervise, the rules for restarting it, and what its status says."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from penstock.resilience.backoff import Backoff

STOP_PHASES: Mapping[str, int] = MappingProxyType(
    {"collect": 0, "fetch": 0, "tickers": 0, "work": 0, "keep": 1, "bus": 2, "serve": 3}
)
"""When each kind is stopped: what produces records first, what others read from last."""


class ChildPlan(Struct, frozen=True):
    """A process: its name, its command, and what it is for."""

    name: str
    """``kind``, ``kind:exchange`` or ``kind:number``; for ``penstock restart``."""
    kind: str
    words: tuple[str, ...]
    """The arguments of ``penstock``."""
    exchange: str = ""
    pace_s: float = 0.0
    """Seconds that usually lie between two deliveries of data, where that is known to be long."""
    environment: Mapping[str, str] = {}
    """Variables of this process alone."""

    @property
    def phase(self) -> int:
        """When it is stopped, counted from 0."""
        return STOP_PHASES[self.kind]

    @property
    def delivers(self) -> bool:
        """Whether data is expected from it all the time."""
        return bool(self.exchange)


class Rules(Struct, frozen=True, kw_only=True):
    """When a process is restarted, killed and given up."""

    backoff: Backoff = Backoff(first_s=0.5, longest_s=60.0)
    restart_limit: int = 10
    stable_after_s: float = 60.0
    stop_timeout_s: float = 60.0
    start_timeout_s: float = 180.0
    hung_after_s: float = 60.0
    no_data_after_s: float = 600.0


class Seen(NamedTuple):
    """The status of a process, as it was read from the shared store."""

    at_ms: int
    """When it was written: a new value is a sign of life."""
    is_running: bool
    """Whether it has started; until then no data is expected."""
    last_data_ms: int | None
    """When it last delivered data, by its own clock."""
