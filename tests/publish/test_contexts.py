"""The network thread of a context does not interrupt threads, unless the process is of a class."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these classes")

_PRINT_CLASSES = """
import os
from pathlib import Path
os.sched_setscheduler(0, os.{before}, os.sched_param(0))
import zmq
from penstock.publish.contexts import new_context
context = new_context()
socket = context.socket(zmq.PUB)  # the first socket starts the threads
found = []
while len(found) < 2:  # each sets its class, and then its name
    tasks = Path("/proc/self/task").iterdir()
    found = [int(each.name) for each in tasks if "ZMQ" in (each / "comm").read_text()]
print(*map(os.sched_getscheduler, found))
context.destroy(0)
"""


@pytest.mark.parametrize(
    ("before", "network_thread"),
    [("SCHED_OTHER", "SCHED_BATCH"), ("SCHED_BATCH", "SCHED_BATCH"), ("SCHED_IDLE", "SCHED_IDLE")],
)
def test_the_network_thread_waits_for_a_free_processor(before: str, network_thread: str) -> None:
    command = [sys.executable, "-c", _PRINT_CLASSES.format(before=before)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert set(done.stdout.split()) == {str(getattr(os, network_thread))}
