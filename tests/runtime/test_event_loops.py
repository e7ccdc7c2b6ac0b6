"""A process runs on the event loop that the settings choose, and what it does works on each."""

import asyncio
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from tests.publish.conftest import TOPIC, Town, heard, joined, messages, numbers, take

from penstock.cli.running import run_process
from penstock.config.collecting import EventLoop
from penstock.errors import MissingExtra
from penstock.runtime import event_loops
from penstock.runtime.event_loops import loop_factory, loop_name


@pytest.fixture
def no_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without uvloop."""

    def not_found(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.setattr(event_loops, "find_spec", lambda _: None)
    monkeypatch.setattr(event_loops, "version", not_found)


async def _module_of_loop() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


@pytest.mark.parametrize(
    ("wanted", "module"), [("auto", "uvloop"), ("uvloop", "uvloop"), ("asyncio", "asyncio")]
)
def test_a_process_runs_on_the_loop_of_the_settings(wanted: EventLoop, module: str) -> None:
    assert run_process(_module_of_loop(), wanted) == module
    assert loop_name(wanted).partition(" ")[0] == module


_THREADS = """
from pathlib import Path
from penstock.cli.running import run_process

async def threads():
    return [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]

print(any(name.startswith("iou-sqp") for name in run_process(threads(), "uvloop")))
"""


def test_no_thread_of_the_kernel_polls_for_uvloop() -> None:
    # In a process of its own: libuv looks at its environment once.
    environment = {name: each for name, each in os.environ.items() if name != "UV_USE_IO_URING"}
    words = [sys.executable, "-c", _THREADS]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


@pytest.mark.usefixtures("no_uvloop")
def test_without_uvloop_it_is_asyncio_unless_uvloop_is_demanded() -> None:
    assert run_process(_module_of_loop(), "auto") == "asyncio"
    assert loop_name("auto") == "asyncio"
    with pytest.raises(MissingExtra, match=r"pip install 'penstock\[uvloop\]'"):
        run_process(_module_of_loop(), "uvloop")


@pytest.mark.parametrize("wanted", ["asyncio", "uvloop"])
def test_a_bus_forwards_on_each_loop(tmp_path: Path, wanted: EventLoop) -> None:
    async def forward() -> list[int]:
        town = Town(tmp_path)
        async with town.bus(), town.publisher() as publisher:
            await heard(publisher)
            async with town.subscriber(TOPIC) as subscriber:
                await joined(subscriber)
                for first in range(1, 2000, 10):
                    publisher.publish(messages(first, first + 9))
                    await asyncio.sleep(0)
                return numbers(await take(subscriber, 2000))

    with asyncio.Runner(loop_factory=loop_factory(wanted)) as runner:
        assert runner.run(forward()) == list(range(1, 2001))
