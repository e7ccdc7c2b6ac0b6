"""Commands of the state machines to the owner of the processes and the clock."""

from typing import NamedTuple


class Start(NamedTuple):
    """Start the process; report ``started`` or ``start_failed``."""

    name: str


class Terminate(NamedTuple):
    """Send SIGTERM; ``exited`` is expected to follow."""

    name: str


class Kill(NamedTuple):
    """Send SIGKILL to the process and those that it started."""

    name: str


class WakeAt(NamedTuple):
    """Call ``woken`` at this time, or later."""

    at_ns: int


Command = Start | Terminate | Kill | WakeAt
