"""Processes that only the store of live values knows, such as one that cannot reach the state."""

from collections.abc import Sequence

from penstock.config import Settings
from penstock.errors import ConfigError, MissingExtra, StorageError
from penstock.runtime.status import GONE_MS, SeenProcess, merged, read_configured_live

_EVERY_MS = 10_000
"""Entries are written every 30 seconds, and read again after this time."""
_TIMEOUT_S = 1.0
"""Documents wait for so long at most while that store does not answer."""


class LiveProcesses:
    """Adds the processes in the store of live values to those in the state store."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._at_ms: int | None = None
        self._read: list[SeenProcess] = []

    async def added_to(self, seen: Sequence[SeenProcess], now_ms: int) -> list[SeenProcess]:
        """All processes, each once. While the store of live values does not answer: the same."""
        if self._at_ms is None or not 0 <= now_ms - self._at_ms < _EVERY_MS:
            self._at_ms = now_ms
            try:
                self._read = await read_configured_live(self._settings, _TIMEOUT_S)
            except (StorageError, ConfigError, MissingExtra):
                self._read = []
        age_ms = now_ms - self._at_ms
        # A report in the state store has more details, so a later one counts only if it is old.
        heard = {each.id for each in seen if each.silent_ms <= GONE_MS}
        return merged(
            seen,
            (
                each._replace(silent_ms=each.silent_ms + age_ms)
                for each in self._read
                if each.id not in heard
            ),
        )
