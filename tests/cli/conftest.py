"""Commands run as a user runs them, and an exchange and a data folder that many tests share."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.forked import command
from tests.waiting import PATIENCE_S
from typer.testing import CliRunner

from penstock.cli import app
from penstock.errors import PenstockError
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream

PENSTOCK = [sys.executable, "-m", "penstock"]
SYMBOLS = ["btc_usdt", "eth_usdt"]


def run(*words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    with command(
        words,
        cwd=folder,
        env={**os.environ, "COLUMNS": "160", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            out, errors = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, process.returncode, out, errors)


def invoke(*words: str) -> subprocess.CompletedProcess[str]:
    """The same within this process, which takes no time: for commands that end by themselves."""
    result = CliRunner().invoke(app, words, env={"COLUMNS": "160"})
    if isinstance(result.exception, PenstockError):  # what main() makes of it
        return subprocess.CompletedProcess(words, 2, result.stdout, f"penstock: {result.exception}")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)


def urls(address: str) -> dict[str, str]:
    """The environment in which the exchange is found at an address."""
    return {
        "PENSTOCK_EXCHANGES_REST_URLS": f"binance={address}",
        "PENSTOCK_EXCHANGES_STREAM_URLS": f"binance={address}",
        "PENSTOCK_COLLECT_BOOK_EVERY": "0.5",
    }


@contextmanager
def started(
    *words: str,
    folder: Path,
    environment: dict[str, str],
    before: Callable[[], None] | None = None,
    forked: bool = True,
) -> Iterator[subprocess.Popen[str]]:
    """A command that runs meanwhile; killed in the end, if it still does."""
    process = command(
        words,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=before,
        forked=forked,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(
    true: Callable[[], bool], process: subprocess.Popen[str], every_s: float = 0.1
) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert process.poll() is None, process.communicate()[1][-2000:]
        assert time.monotonic() < deadline
        time.sleep(every_s)


def stopped(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a process told to stop."""
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, errors


@contextmanager
def _simulator(folder: Path) -> Iterator[str]:
    words = ["sim", "--port", "0", "--json", "--symbols", ",".join(SYMBOLS)]
    with command(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["listening"]
        finally:
            process.kill()


# Not of the whole session: one that nobody asks takes processor time, too.
@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a simulator listens."""
    with _simulator(tmp_path_factory.mktemp("sim")) as address:
        yield address


@pytest.fixture(scope="session")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with some seconds of both markets in ./penstock-data; nobody writes to it."""
    folder = tmp_path_factory.mktemp("collected")
    words = ("collect", "binance", *SYMBOLS)
    with (
        _simulator(folder) as address,
        started(*words, folder=folder, environment=urls(address)) as process,
    ):
        wait_until(lambda: _has_books(folder / "penstock-data"), process, every_s=0.2)
        code, _, errors = stopped(process)
    assert code == 0, errors
    return folder


def _has_books(data: Path, many: int = 5) -> bool:
    """Whether the books of each market were recorded so many times, twice a second."""
    with closing(open_log(f"rocksdb:{data}").reader()) as log:
        found = (log.scan(Stream("binance", "book_snapshots", name)) for name in SYMBOLS)
        return all(sum(1 for _ in books) >= many for books in found)
