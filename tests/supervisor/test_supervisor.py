"""Real processes under the supervisor: killed, stopped, stubborn, flooding, orphaned."""

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.errors import NoSupervisor, NotSupervised, SupervisorRunning
from penstock.resilience.backoff import Backoff
from penstock.runtime.status import ChildStatus
from penstock.supervisor import control
from penstock.supervisor.control import Action, controlled, send_to_supervisor
from penstock.supervisor.facts import LinesDropped, ProcessGivenUp, ProcessKilled
from penstock.supervisor.launching import Launcher
from penstock.supervisor.lock import only_supervisor
from penstock.supervisor.model import ChildPlan, Rules
from penstock.supervisor.output import Output
from penstock.supervisor.supervisor import Supervisor
from penstock.telemetry import Fact

RULES = Rules(backoff=Backoff(first_s=0.01, longest_s=0.05), restart_limit=3, stop_timeout_s=0.5)
SHELL = {
    "sleeps": "exec sleep 1000",
    "fails": "echo 'penstock: the port is in use'; exit 75",
    "refuses": "echo 'penstock: there is no such exchange'; exit 2",
    "crashes": "exit 1",
    "stubborn": "trap '' TERM; echo ready; while true; do sleep 0.05; done",
    "floods": "yes flood",
}


def plan(name: str, does: str = "sleeps", kind: str = "work") -> ChildPlan:
    return ChildPlan(name, kind, (SHELL[does],))


class Running:
    """A supervisor, what it wrote and which facts it told."""

    def __init__(
        self, supervisor: Supervisor, facts: list[Fact], output: Output, written: Path
    ) -> None:
        self.supervisor, self.facts = supervisor, facts
        self.output, self._written = output, written
        self.stop = asyncio.Event()

    def child(self, name: str) -> ChildStatus:
        [found] = [each for each in self.supervisor.children() if each.name == name]
        return found

    def pid(self, name: str) -> int:
        return self.child(name).pid or 0

    def written(self) -> str:
        return self._written.read_text()


@asynccontextmanager
async def supervised(
    folder: Path, *plans: ChildPlan, descriptor: int | None = None
) -> AsyncIterator[Running]:
    facts: list[Fact] = []
    written = folder / "written"
    with written.open("wb") as file:
        output = Output(file.fileno() if descriptor is None else descriptor)
        launcher = Launcher(("/bin/sh", "-c"), dict(os.environ), output, as_json=False)

        async def nobody() -> None:
            return None

        supervisor = Supervisor(plans, RULES, launcher, nobody, SystemClock(), facts.append)
        running = Running(supervisor, facts, output, written)
        task = asyncio.create_task(supervisor.run(running.stop))
        try:
            await eventually(
                lambda: any(each.restarts or each.pid for each in supervisor.children())
            )
            yield running
        finally:
            running.stop.set()
            await asyncio.wait_for(task, PATIENCE_S)
            output.close()


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 (nobody would set an event)
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def is_being_tied(pid: int) -> bool:
    return b"tied.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_one_that_is_killed_is_started_again_and_the_others_are_not(tmp_path: Path) -> None:
    async with supervised(tmp_path, plan("a"), plan("b")) as running:
        await eventually(lambda: running.pid("b") > 0)
        before = running.pid("a"), running.pid("b")
        os.kill(before[0], signal.SIGKILL)
        await eventually(lambda: running.child("a").restarts == 1)

        assert running.pid("a") != before[0]
        assert running.pid("b") == before[1]
        assert running.child("a").reason == "ended by signal 9"
        pids = running.pid("a"), running.pid("b")
    assert not any(map(is_alive, pids))


async def test_what_a_process_said_last_is_the_reason(tmp_path: Path) -> None:
    async with supervised(tmp_path, plan("a"), plan("b", "refuses"), plan("c", "fails")) as running:
        await eventually(lambda: running.child("b").state == "given up")
        await eventually(lambda: running.child("c").restarts > 2 * RULES.restart_limit)

        assert running.child("b").reason == "ended with exit code 2: there is no such exchange"
        assert running.child("c").reason == "ended with exit code 75: the port is in use"
        assert running.child("a").restarts == 0
        problems = running.supervisor.report().problems
        assert problems[0] == "b given up: ended with exit code 2: there is no such exchange"
        await eventually(lambda: "b | penstock: there is no such exchange" in running.written())
    assert running.supervisor.has_given_up


async def test_a_supervisor_without_a_process_left_ends(tmp_path: Path) -> None:
    async with supervised(tmp_path, plan("a", "crashes")) as running:
        async with asyncio.timeout(PATIENCE_S):
            await eventually(lambda: running.supervisor.has_given_up)

    [given_up] = [fact for fact in running.facts if isinstance(fact, ProcessGivenUp)]
    assert given_up.reason == "ended with exit code 1, 3 failures in a row"


async def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    async with supervised(tmp_path, plan("a", "stubborn")) as running:
        await eventually(lambda: "ready" in running.written())
        pid = running.pid("a")

    assert [fact.process for fact in running.facts if isinstance(fact, ProcessKilled)] == ["a"]
    assert not is_alive(pid)


async def test_a_flood_of_lines_is_bounded_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.supervisor.supervisor._LOOK_S", 0.05)
    read, write = os.pipe()  # which nobody reads
    plans = plan("a", "floods"), plan("b")
    async with supervised(tmp_path, *plans, descriptor=write) as running:
        await eventually(lambda: any(isinstance(fact, LinesDropped) for fact in running.facts))

        before = running.pid("b")
        os.kill(before, signal.SIGKILL)
        await eventually(lambda: running.child("b").restarts == 1)
    os.close(read)
    running.output.close(PATIENCE_S)
    os.close(write)


async def test_commands_come_through_a_socket_that_only_the_owner_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than a path of a socket may be.
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    async with (
        supervised(tmp_path, plan("a"), plan("b"), plan("serve", kind="serve")) as running,
        controlled(running.supervisor, folder),
    ):
        await eventually(lambda: running.pid("serve") > 0)
        assert stat.S_IMODE((folder / "up.sock").stat().st_mode) == 0o600
        before = running.pid("a"), running.pid("b"), running.pid("serve")
        one = await send_to_supervisor(folder, "restart", ["a"])
        assert [(each.name, each.state) for each in one.processes] == [("a", "running")]
        assert running.pid("a") != before[0]
        assert (running.pid("b"), running.pid("serve")) == before[1:]

        kind = await send_to_supervisor(folder, "stop", ["work"])
        assert [(each.name, each.state) for each in kind.processes] == [
            ("a", "stopped"), ("b", "stopped"),
        ]  # fmt: skip
        assert not is_alive(before[1])
        await send_to_supervisor(folder, "start", ["b"])
        assert is_alive(running.pid("b"))

        unknown = await send_to_supervisor(folder, "restart", ["serv"])
        assert "Did you mean serve?" in unknown.error
        with pytest.raises(NotSupervised, match="a b serve"):
            running.supervisor.find(["zzz"])

        monkeypatch.chdir(folder)
        reader, writer = await asyncio.open_unix_connection("up.sock")
        writer.write(b'{"action":"erase"}\n')
        assert b"error" in await reader.readline()
        writer.close()
        reader, writer = await asyncio.open_unix_connection("up.sock")
        writer.write(b"x" * 1_000_000)
        with suppress(OSError):
            assert await reader.read() == b""
        writer.close()
    with pytest.raises(NoSupervisor):
        await send_to_supervisor(folder, "restart", ["a"])


@pytest.mark.parametrize("action", ["show", "restart"])
async def test_a_supervisor_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    monkeypatch.setattr(control, "_SHOW_S", 0.05)
    over = asyncio.Event()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    server = await asyncio.start_unix_server(hang, tmp_path / "up.sock")
    with pytest.raises(NoSupervisor, match=r"does not answer within 0\.05 s"):
        await asyncio.wait_for(send_to_supervisor(tmp_path, action, ["a"]), PATIENCE_S / 4)
    over.set()
    server.close()


async def test_an_answer_may_be_long(tmp_path: Path) -> None:
    plans = [plan(f"{number}{'x' * 10_000}", "refuses") for number in range(8)]
    async with (
        supervised(tmp_path, plan("a"), *plans) as running,
        controlled(running.supervisor, tmp_path),
    ):
        answer = await send_to_supervisor(tmp_path, "show", [])

    assert [each.name for each in answer.processes] == ["a", *(each.name for each in plans)]


async def test_a_machine_without_threads_left_is_no_reason_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with supervised(tmp_path, plan("a"), plan("b")) as running:
        await eventually(lambda: running.pid("b") > 0)

        async def start(*_: object) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr(Launcher, "start", start)
            os.kill(running.pid("a"), signal.SIGKILL)
            await eventually(lambda: "new thread" in running.child("a").reason)
            assert running.child("b").state == "running"


def test_a_folder_has_one_supervisor(tmp_path: Path) -> None:
    second = only_supervisor(tmp_path / "new")
    with (
        only_supervisor(tmp_path / "new"),
        pytest.raises(SupervisorRunning, match=f"pid {os.getpid()}"),
        second,
    ):
        pass
    with only_supervisor(tmp_path / "new"):
        pass


def test_a_full_disk_does_not_stop_a_supervisor_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)

    with (
        only_supervisor(tmp_path),
        pytest.raises(SupervisorRunning, match="A supervisor runs"),
        only_supervisor(tmp_path),
    ):
        pytest.fail("it is not locked")


ORPHANS = """
import asyncio, os, sys
from pathlib import Path
from tests.supervisor.test_supervisor import plan, supervised

async def main():
    async with supervised(Path(sys.argv[1]), plan("a"), plan("b", "stubborn")) as running:
        while not all(each.pid for each in running.supervisor.children()):
            await asyncio.sleep(0.01)
        print(running.pid("a"), running.pid("b"), flush=True)
        await asyncio.sleep(1000)

asyncio.run(main())
"""


def test_a_killed_supervisor_leaves_no_process_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    # Before it is tied to its parent, a process ends by itself when that is gone.
    asyncio.run(eventually(lambda: not any(map(is_being_tied, pids))))
    assert all(map(is_alive, pids))
    process.kill()
    process.wait()
    process.stdout.close()

    asyncio.run(eventually(lambda: not any(map(is_alive, pids))))
