"""Tells whether a process of this machine still runs, whoever has its process id now."""

from functools import cache
from pathlib import Path

from penstock.clock import SystemBootClock


@cache
def pid_space() -> str:
    """Which process ids are the same as here: this boot, and this container if there is one.

    Empty where the system does not tell.
    """
    try:
        return f"{SystemBootClock().boot_id()}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def identity_of(pid: int) -> str:
    """A text that no other process ever has; empty if there is no such process, or it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # Its name may contain anything, and is in parentheses.
    state, *fields = stat.rpartition(")")[2].split()
    if state in ("Z", "X") or not pid_space():
        return ""
    return f"{pid_space()}/{fields[18]}"


def has_ended(identity: str, pid: int) -> bool:
    """Whether a process of this machine has ended; False if it is of another one."""
    is_ours = bool(pid_space()) and identity.startswith(f"{pid_space()}/")
    return is_ours and identity_of(pid) != identity
