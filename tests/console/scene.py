"""A demo that a browser looks at: simulators, collectors, a worker and a server as processes."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.forked import command
from tests.waiting import PATIENCE_S

T = TypeVar("T")
POLL_S = 0.1
MARKETS = {"binance": ("btc_usdt", "eth_usdt"), "kraken": ("btc_usd",)}


def until(found: Callable[[], T], wait_s: float = PATIENCE_S) -> T:
    """The first true answer."""
    deadline = time.monotonic() + wait_s
    while not (answer := found()):
        assert time.monotonic() < deadline, f"it is still {answer!r} after {wait_s:g} s"
        time.sleep(POLL_S)
    return answer


@dataclass
class Scene:
    """One data folder, and the processes that work on it."""

    folder: Path
    simulators: dict[str, str] = field(default_factory=dict)
    """Their addresses by exchange."""
    settings: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    url: str = ""
    """Of the server."""

    @property
    def environment(self) -> Mapping[str, str]:
        addresses = ",".join(f"{name}={url}" for name, url in self.simulators.items())
        return {
            **os.environ,
            "PENSTOCK_EXCHANGES_REST_URLS": addresses,
            "PENSTOCK_EXCHANGES_STREAM_URLS": addresses,
            "PENSTOCK_COLLECT_DATA_DIR": str(self.folder),
            "PENSTOCK_JOBS_GAP_WATCH": "1",
            **self.settings,
        }

    def begin(self, name: str, *words: str) -> subprocess.Popen[str]:
        """Start a command, which is known by this name from then on."""
        with (self.folder.parent / f"{name}.errors").open("a") as errors:
            process = command(
                words, env=self.environment, stdout=subprocess.PIPE, stderr=errors,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.processes[name] = process
        return process

    def simulate(self, exchange: str, *words: str) -> None:
        markets = ",".join(MARKETS[exchange])
        begun = self.begin(
            f"sim-{exchange}", "sim", exchange, "--port", "0", "--json", "--seed", "7",
            "--symbols", markets, *words,
        )  # fmt: skip
        self.simulators[exchange] = _first_line(begun)["listening"]

    def collect(self, exchange: str) -> None:
        self.begin(f"collect-{exchange}", "collect", exchange, *MARKETS[exchange])

    def serve(self, port: str = "0") -> str:
        """Start a server; its address."""
        self.url = _first_line(self.begin("serve", "serve", "--port", port, "--json"))["listening"]
        return self.url

    def kill(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].communicate()

    def get(self, path: str, **query: str) -> Any:
        """A document of the API."""
        address = f"{self.url}/api/v1/{path}" + (f"?{urlencode(query)}" if query else "")
        with urlopen(Request(address, headers=self._headers()), timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def post(self, path: str, body: object) -> Any:
        request = Request(
            f"{self.url}/api/v1/{path}", json.dumps(body).encode(),
            {"Content-Type": "application/json", **self._headers()},
        )  # fmt: skip
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def control(self, exchange: str, order: str, body: object = None, **query: str) -> Any:
        """Give a simulator an order."""
        address = f"{self.simulators[exchange]}/_sim/{order}?{urlencode(query)}"
        data = None if body is None else json.dumps(body).encode()
        request = Request(address, data, {"Content-Type": "application/json"}, method="POST")
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/healthz", timeout=1.0) as answer:
                return bool(answer.status == 200)
        except (HTTPError, URLError, OSError):
            return False

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            if process.returncode is None:
                process.kill()
                process.communicate()

    def _headers(self) -> dict[str, str]:
        token = self.settings.get("PENSTOCK_API_TOKEN")
        return {"Authorization": f"Bearer {token}"} if token else {}


def _first_line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


@contextmanager
def scene(folder: Path, **settings: str) -> Iterator[Scene]:
    """An empty one, whose processes end with it."""
    folder.mkdir(parents=True)
    at = Scene(folder, settings=settings)
    with ExitStack() as stack:
        stack.callback(at.stop)
        yield at


def chromium() -> str | None:
    """The browser, if the machine has one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")
