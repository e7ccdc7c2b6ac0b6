"""Whether a disk has enough free space for work that can wait.

Below the minimum, backfills and other jobs stop, so that live collection can use the rest. They
continue by themselves once there is clearly more than the minimum, so a disk at the limit does not
start and stop them all the time.
"""

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.clock import Clock
from penstock.errors import ConfigError
from penstock.runtime.facts import DiskSpaceEnough, DiskSpaceLow
from penstock.telemetry import Listener, quiet

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%|[KMGT]?B|)", re.IGNORECASE)
_ENOUGH = 1.25
"""How many times the minimum must be free for jobs to continue."""
_LOOK_NS = 1_000_000_000


class Space(NamedTuple):
    """The size and the free space of a disk, in bytes."""

    total: int
    free: int


class MinFree(NamedTuple):
    """The space that must be free; the smallest part applies."""

    sizes: tuple[int, ...] = ()
    percents: tuple[float, ...] = ()

    def bytes_of(self, total: int) -> int:
        """The minimum on a disk of this size; 0 if there is none."""
        of_disk = (round(total * percent / 100) for percent in self.percents)
        return min((*self.sizes, *of_disk), default=0)


def read_min_free(texts: Sequence[str]) -> MinFree:
    """Return the minimum of ``disk.min_free``.

    Raises:
        ConfigError: a part is neither a size nor a share of the disk.
    """
    sizes, percents = list[int](), list[float]()
    for text in texts:
        match = _SIZE.fullmatch(text.strip())
        number, unit = (float(match[1]), match[2].upper()) if match else (-1.0, "")
        if match is None or (unit == "%" and number >= 100):
            raise ConfigError(
                "disk.min_free",
                problem=f"{text!r} is neither a size such as 2GB nor a share such as 5%.",
                origin="settings",
            )
        if unit == "%":
            percents.append(number)
        else:
            sizes.append(round(number * _UNITS[unit]))
    return MinFree(tuple(sizes), tuple(percents))


def measure_space(folder: Path) -> Space:
    """Measure the disk of a folder.

    Raises:
        OSError: it cannot be measured.
    """
    usage = shutil.disk_usage(folder)
    return Space(usage.total, usage.free)


class DiskSpace:
    """The free space of one folder's disk, measured at most once a second."""

    def __init__(
        self,
        folder: Path,
        min_free: MinFree,
        clock: Clock,
        emit: Listener = quiet,
        measure: Callable[[Path], Space] = measure_space,
    ) -> None:
        self._folder, self._min_free, self._clock = folder, min_free, clock
        self._emit, self._measure = emit, measure
        self._looked_ns: int | None = None
        self._shortage = ""

    def shortage(self) -> str:
        """Why work that can wait must not be done now; "" if there is enough space."""
        now_ns = self._clock.monotonic_ns()
        if self._looked_ns is None or now_ns - self._looked_ns >= _LOOK_NS:
            self._looked_ns = now_ns
            self._look()
        return self._shortage

    def _look(self) -> None:
        try:
            space = self._measure(self._folder)
        except OSError:  # what is known stays; a disk that is gone is reported by those who write
            return
        least = self._min_free.bytes_of(space.total)
        path = str(self._folder)
        if space.free < least:
            if not self._shortage:
                self._emit(DiskSpaceLow(path=path, free_bytes=space.free, min_bytes=least))
            self._shortage = (
                f"the disk is almost full: {space.free / 1e6:,.1f} MB free at {path}, less than"
                f" {least / 1e6:,.1f} MB (disk.min_free)"
            )
        elif self._shortage and space.free >= least * _ENOUGH:
            self._shortage = ""
            self._emit(DiskSpaceEnough(path=path, free_bytes=space.free))
