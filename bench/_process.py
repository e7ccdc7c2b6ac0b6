"""What a process has spent and holds, as the kernel counts it."""

import os
from pathlib import Path


def cpu_s(pid: int) -> float:
    """The CPU time of all threads that it has now."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        spent_ns = sum(int((t / "schedstat").read_text().split()[0]) for t in tasks.iterdir())
    except FileNotFoundError:  # a kernel without it; ticks are coarser
        return spent_cpu_s(pid)
    return spent_ns / 1e9


def spent_cpu_s(pid: int) -> float:
    """The CPU time of the whole process so far, threads that have ended included.

    In hundredths of a second, so for what takes seconds.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
