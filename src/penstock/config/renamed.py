"""Settings that were renamed. The old name still works in this version, with one warning.

Both the settings file and the environment may use an old name. Where both names are set, the new
one wins, whichever source it comes from. An entry is removed with the next version.
"""

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from penstock.config.simulator import MOVED

LOG = logging.getLogger("penstock")

RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "collect.watch": "collect.liveness",
        "collect.silence": "collect.min_silence",
        "collect.first_word": "collect.first_message_timeout",
        "requests.patience": "requests.acquire_timeout",
        "state.patience": "state.timeout",
        "jobs.patience": "jobs.acquire_timeout",
        "jobs.turn": "jobs.time_slice",
        "jobs.look_every": "jobs.poll_interval",
        **MOVED,
    }
)
"""Old name → new name."""

_warned: set[str] = set()


def used_instead(old: str, origin: str) -> str:
    """The warning for an old name whose value is used."""
    return f"{old} ({origin}) is now {RENAMED[old]}. The old name works in this version only."


def ignored(old: str, origin: str, new_origin: str) -> str:
    """The warning for an old name that is set beside the new one."""
    new = RENAMED[old]
    return f"{old} ({origin}) is now {new}, which is set too ({new_origin}): {old} is ignored."


def warn_once(warnings: Iterable[str]) -> None:
    """Log each warning, but none that this process has logged before."""
    for warning in warnings:
        if warning not in _warned:
            _warned.add(warning)
            LOG.warning(warning)
