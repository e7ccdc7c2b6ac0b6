"""When the host took the processor away from this machine, as its kernel counts it.

A virtual machine shares its cores. While the host runs somebody else on them, nothing here runs,
the benchmark's own sender included, and a latency tells about the neighbours. What was measured
then is counted apart. Where the kernel does not tell, nothing is.
"""

import threading
import time
from bisect import bisect_left
from pathlib import Path

_LOOK_S = 0.02
_TOLD = Path("/proc/stat")


class Steal:
    """Watches from its start until it is stopped."""

    def __init__(self) -> None:
        self._taken_ns: list[int] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopping.set()
        self._thread.join()

    def between(self, first_ns: int, last_ns: int) -> bool:
        """Whether anything was taken between two instants of the monotonic clock, or nearly."""
        margin_ns = round(2 * _LOOK_S * 1e9)
        place = bisect_left(self._taken_ns, first_ns - margin_ns)
        return place < len(self._taken_ns) and self._taken_ns[place] <= last_ns + margin_ns

    def _watch(self) -> None:
        before = _ticks()
        while not self._stopping.wait(_LOOK_S):
            now = _ticks()
            if now != before:
                self._taken_ns.append(time.monotonic_ns())
            before = now


def _ticks() -> int:
    """Hundredths of a second taken so far, of all cores together."""
    if not _TOLD.exists():
        return 0
    fields = _TOLD.read_text().split(maxsplit=10)
    return int(fields[8])
