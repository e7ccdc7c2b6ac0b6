"""``--workers N``: tests are collected once, and files shared out between forks of this process.

Collecting imports every test, which takes longer than most files of tests do, and with processes
that are started (as by pytest-xdist) each of them collects. A fork has everything collected, and
runs the next file that nobody runs, all in one process. Fixtures of a session are its own, and so
is the process id: a module that is imported before must not keep it.
"""

import atexit
import contextlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from tests.fork_server import fork_server

_LOOKS = 10
"""How often it is looked whether a test hangs, while it may take its longest."""
_WORD = 4
"""Bytes of a file's number in the queue, so few that they are read at once."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers", type=int, default=0, help="run files of tests in so many forks (0: in none)"
    )
    parser.addoption(
        "--longest", type=float, default=900.0, metavar="SECONDS",
        help="a worker whose test takes longer is killed, and says where it was",
    )  # fmt: skip


_EXIT = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--workers"):
        # Of all clean-ups this is one of the last.
        config.add_cleanup(lambda: _leave_parent(config))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_EXIT] = int(exitstatus)


def _leave_parent(config: pytest.Config) -> None:
    """End without freeing modules.

    Where everything was imported, every other time msgspec 0.22 frees a type of a decoder that is
    no more, and the process crashes: all tests have passed, and ``make`` fails.
    """
    if _EXIT in config.stash:
        config.get_terminal_writer().flush()
        _leave(config.stash[_EXIT])


def _leave(code: int) -> NoReturn:
    """End without what a process does at its end, but for threads and exit functions."""
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stderr.flush()
    os._exit(code)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    count, broken = config.getoption("--workers"), session.testsfailed
    if not count or config.option.collectonly or config.option.usepdb or broken:
        return None  # as without this
    files = [list(each) for _, each in itertools.groupby(session.items, lambda item: item.path)]
    _Run(session, files).run(min(count, len(files)))
    return True


class _Node:
    """A worker, as pytest looks for it in a report: not to mix up those of several processes."""

    def __init__(self, name: str) -> None:
        self.name, self.gateway = name, SimpleNamespace(id=name)
        self._workerinfocache = f"[{name}]"


class _Run:
    """The parent: it reports what its workers say."""

    def __init__(self, session: pytest.Session, files: Sequence[list[pytest.Item]]) -> None:
        self._session, self._config, self._files = session, session.config, files
        self._workers: dict[Connection, tuple[int, _Node]] = {}
        self._running: dict[Connection, tuple[str, float]] = {}
        """The test of each worker, and when it began."""
        self._longest_s = self._config.getoption("--longest")
        self._left = {item.nodeid: item.location for each in files for item in each}

    def run(self, count: int) -> None:
        queue, filling = os.pipe()
        for number in range(len(self._files)):
            os.write(filling, number.to_bytes(_WORD))
        os.close(filling)
        folder = self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        for number in range(count):
            reader, writer = Pipe(duplex=False)
            if (worker := os.fork()) == 0:
                for other in (reader, *self._workers):
                    other.close()
                _Worker(self._session, self._files, queue, writer).run(folder / f"worker-{number}")
            writer.close()
            self._workers[reader] = (worker, _Node(f"worker {number}"))
        os.close(queue)
        try:
            while self._workers:
                for ready in wait(list(self._workers), self._longest_s / _LOOKS):
                    assert isinstance(ready, Connection)
                    self._read(ready)
                self._kill_hanging()
        finally:
            self._stop_all()
        for nodeid in list(self._left):
            self._fail(nodeid, "no worker was left to run it")

    def _read(self, reader: Connection) -> None:
        try:
            said, data = reader.recv()
        except EOFError:
            self._ended(reader)
            return
        if said == "start":
            self._running[reader] = data, time.monotonic()
        elif said == "end":
            del self._running[reader]
            self._left.pop(data, None)
        else:
            report = self._config.hook.pytest_report_from_serializable(
                config=self._config, data=data
            )
            report.node = self._workers[reader][1]
            self._config.hook.pytest_runtest_logreport(report=report)
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)

    def _kill_hanging(self) -> None:
        for reader, (_, began) in self._running.items():
            if time.monotonic() - began > self._longest_s:
                os.kill(self._workers[reader][0], signal.SIGABRT)  # faulthandler shows where it is

    def _ended(self, reader: Connection) -> None:
        worker, node = self._workers.pop(reader)
        reader.close()
        _, status = os.waitpid(worker, 0)
        words = f"{node.name} ended with {os.waitstatus_to_exitcode(status)}"
        if running := self._running.pop(reader, None):
            self._fail(running[0], words)
        elif status:
            self._fail(node.name, words)

    def _fail(self, nodeid: str, words: str) -> None:
        location = self._left.pop(nodeid, (nodeid, None, nodeid))
        report = pytest.TestReport(nodeid, location, {}, "failed", words, "call")
        self._config.hook.pytest_runtest_logreport(report=report)

    def _stop_all(self) -> None:
        for reader, (worker, _) in self._workers.items():
            reader.close()
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGINT)  # so that fixtures end what they started
            os.waitpid(worker, 0)
        self._workers.clear()


class _Worker:
    """A fork: it runs files, and says how their tests went."""

    def __init__(
        self,
        session: pytest.Session,
        files: Sequence[list[pytest.Item]],
        queue: int,
        writer: Connection,
    ) -> None:
        self._session, self._config, self._files = session, session.config, files
        self._queue, self._writer = queue, writer

    def run(self, folder: Any) -> NoReturn:
        code = 1
        try:
            self._settle(folder)
            for file in self._next_files():
                for item, following in itertools.zip_longest(file, file[1:]):
                    self._writer.send(("start", item.nodeid))
                    self._config.hook.pytest_runtest_protocol(
                        # The session: what ends with a file ends, and what is the session's stays.
                        item=item, nextitem=following or self._session,
                    )  # fmt: skip
                    self._writer.send(("end", item.nodeid))
            self._session._setupstate.teardown_exact(None)
            code = 0
        except (KeyboardInterrupt, BrokenPipeError):
            self._end_fixtures()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            self._end_fixtures()
        finally:
            _leave(code)

    def _settle(self, folder: Any) -> None:
        """Own what forks would share: the folder of their tests, and the files of their output."""
        folder.mkdir()
        self._config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]
        plugins = self._config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.register(self)
        capture: Any = plugins.getplugin("capturemanager")
        capture.stop_global_capturing()
        if sys.platform == "linux":
            # Everything is imported here, which takes a process that is started seconds.
            fork_server()
        capture.start_global_capturing()
        capture.suspend_global_capture()

    def _next_files(self) -> Iterator[list[pytest.Item]]:
        while word := os.read(self._queue, _WORD):
            yield self._files[int.from_bytes(word)]

    def _end_fixtures(self) -> None:
        with contextlib.suppress(BaseException):
            self._session._setupstate.teardown_exact(None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._writer.send(("report", data))
