"""What a process has spent and holds, as the kernel counts it."""

import time
from pathlib import Path


def cpu_s(pid: int) -> float:
    """The CPU time of the whole process so far, threads that have ended included."""
    # The number of its clock, as the C library's clock_getcpuclockid makes it: in nanoseconds,
    # where /proc has hundredths of a second.
    return time.clock_gettime(~pid << 3 | 2)


def rss_mb(pid: int) -> float:
    """Memory it holds."""
    return _status_mb(pid, "VmRSS:")


def peak_rss_mb(pid: int) -> float:
    """The most memory it ever held."""
    return _status_mb(pid, "VmHWM:")


def _status_mb(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (held,) = [line.split()[1] for line in lines if line.startswith(name)]
    return round(int(held) / 1024, 1)
