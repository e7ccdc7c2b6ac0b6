"""What supervision costs for each process: CPU and memory of a supervisor of sleeping processes.

The supervisor reads their statuses from a state store in SQLite, as ``penstock up`` does. Its costs
with one process are subtracted from those with many.
"""

import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from bench._process import cpu_s, rss_mb

PROCESSES = 100
SECONDS = 20.0

_SUPERVISOR = """
import asyncio, os, sys
from pathlib import Path
from penstock.clock import SystemClock
from penstock.config import Collect, Settings
from penstock.runtime.status import ProcessStatus, read_processes, this_machine, write_process
from penstock.runtime.stores import open_state
from penstock.supervisor.launching import Launcher
from penstock.supervisor.model import ChildPlan, Rules
from penstock.supervisor.output import Output
from penstock.supervisor.supervisor import Supervisor
from penstock.telemetry import quiet

folder, count = sys.argv[1], int(sys.argv[2])

async def main():
    clock, stop = SystemClock(), asyncio.Event()
    plans = [ChildPlan(f"work:{n}", "work", ("exec sleep 1000",)) for n in range(count)]
    launcher = Launcher(("/bin/sh", "-c"), dict(os.environ), Output(2), as_json=False)
    async with open_state(Settings(collect=Collect(data_dir=folder)), clock) as store:
        read = lambda: read_processes(store)
        supervisor = Supervisor(plans, Rules(), launcher, read, clock, quiet)
        running = asyncio.create_task(supervisor.run(stop))
        while not all(each.pid for each in supervisor.children()):
            await clock.sleep(0.1)
        for each in supervisor.children():
            status = ProcessStatus(
                kind="work", name=each.name, host=this_machine()[0], pid=each.pid, folder=folder,
                started_ms=clock.now_ms(), at_ms=clock.now_ms(), state="running",
            )
            await write_process(store, each.name, status)
        print("ready", flush=True)
        asyncio.get_running_loop().add_reader(0, stop.set)
        await running

asyncio.run(main())
"""


class Cost(NamedTuple):
    """What a supervisor spends."""

    cpu_share: float
    """Of one CPU."""
    memory_mb: float


def supervise(count: int) -> Cost:
    """Supervise so many processes for a while."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-up-") as folder,
        subprocess.Popen(
            [sys.executable, "-c", _SUPERVISOR, folder, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(os.environ),
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        if process.stdout.readline() != b"ready\n":
            raise SystemExit("the supervisor has ended")
        time.sleep(2)
        before, began = cpu_s(process.pid), time.monotonic()
        time.sleep(SECONDS)
        share = (cpu_s(process.pid) - before) / (time.monotonic() - began)
        memory = rss_mb(process.pid)
        process.stdin.close()
    return Cost(share, memory)


def measure_supervision() -> dict[str, object]:
    """The costs of one more process."""
    one, many = supervise(1), supervise(PROCESSES)
    more = PROCESSES - 1
    return {
        "supervised_processes": PROCESSES,
        "supervisor_mb": one.memory_mb,
        "supervisor_cpu_percent": round(100 * one.cpu_share, 2),
        "supervisor_kb_per_process": round(1024 * (many.memory_mb - one.memory_mb) / more),
        "supervisor_cpu_percent_per_process": round(
            100 * (many.cpu_share - one.cpu_share) / more, 4
        ),
    }
