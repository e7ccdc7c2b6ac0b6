"""Eight processes, fifty tasks each, on one connector: what the simulator counted.

All ask for more than is allowed, in windows of ten seconds that the simulator announces, and nobody
but the store tells one process of the others. No request may be refused, no window overfull, and
all but a little must be used. Half-way one process is answered with 418: from then to its end
nobody may send; what was under way when the answer came is told apart. The judge reads the
simulator's log afterwards. Both databases in turn.

Then the same fleet beside a foreign client at its address, which uses three tenths of the limit and
does not know of it (``beside_foreign_client``): how many of the fleet's requests were refused in
each window, and what all used together.

When a window turns, all who waited send at once, and the simulator is late for a moment; how late
it ever was is told (``lag_ms``). At a window's end, where that would count, nothing is under way.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any
from urllib.request import Request, urlopen

import asyncpg
from bench import _foreign_client
from bench._lease import lease_vs_bare_update
from bench.ours.budget import PROVOKED
from tests import servers

PROCESSES, TASKS = 8, 50
LIMIT, WINDOW_S, WINDOWS = 3600, 10, 18
# Early in a window, when everybody holds tokens and wants to send.
PROVOKE_S = 2.0
# What left before the answer came may arrive so much later: the gates' guard band.
UNDER_WAY_MS = 250
BESIDE_WINDOWS, STRANGERS_SHARE = 6, 0.3

Rows = list[dict[str, Any]]


class Server:
    """The simulator's process, from outside."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, question: str) -> Any:
        """Ask the simulator what truly happened."""
        with urlopen(f"{self.address}/_sim/{question}", timeout=30) as answer:
            return json.load(answer)

    def plan(self, faults: str) -> None:
        """Have other faults injected from now on."""
        body = json.dumps({"plan": faults}).encode()
        with urlopen(Request(f"{self.address}/_sim/faults", body), timeout=30):
            pass

    def requests(self) -> Rows:
        """Every request there was."""
        rows: Rows = []
        while page := self.ask(f"requests?after={rows[-1]['seq'] if rows else 0}")["requests"]:
            rows += page
        return rows


@contextmanager
def serving() -> Iterator[Server]:
    """A simulator with short windows."""
    outside = {name: text for name, text in os.environ.items() if name[:9] != "PENSTOCK_"}
    limits = {
        "PENSTOCK_SIMULATOR_BINANCE_WEIGHT_LIMIT": str(LIMIT),
        "PENSTOCK_SIMULATOR_BINANCE_WEIGHT_WINDOW": str(WINDOW_S),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "sim", "--port", "0", "--json"],
        env={**outside, **limits}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield Server(json.loads(process.stdout.readline())["listening"])
    finally:
        process.terminate()
        process.communicate()


class Asker:
    """One process that asks."""

    def __init__(self, url: str, address: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.ours.budget", url, address, str(TASKS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def send(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def receive(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit("one of the processes ended before it should")
        return line

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()


def sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.time()))


def demand(
    server: Server, url: str, windows: int, *, provoke: bool = True
) -> tuple[int, list[dict[str, Any]]]:
    """Let all ask through so many windows; the first one's number, and what each heard."""
    with ExitStack() as stack:
        askers = []
        for _ in range(PROCESSES):
            askers.append(Asker(url, server.address))
            stack.callback(askers[-1].close)
        for asker in askers:
            asker.receive()
        first = int(time.time() // WINDOW_S) + 1
        sleep_until(first * WINDOW_S + 0.05)
        for asker in askers:
            asker.send("ask")
        if provoke:
            sleep_until((first + windows // 2) * WINDOW_S + PROVOKE_S)
            server.plan(f"http418@{PROVOKED}=1")
            askers[0].send("provoke")
        # Its last moments are not used anyway; the next window must not be begun.
        sleep_until((first + windows) * WINDOW_S - 0.2)
        for asker in askers:
            asker.send("end")
        return first, [json.loads(asker.receive()) for asker in askers]


def judged(
    server: Server, first: int, windows: int, heard: Sequence[Mapping[str, Any]]
) -> dict[str, object]:
    """What the simulator's log says."""
    sleep_until((first + windows) * WINDOW_S + 0.5)
    reports = [
        each for each in server.ask("windows")["windows"]
        if first <= each["window"] < first + windows
    ]  # fmt: skip
    shown = [{name: each[name] for name in ("weight", "requests", "lag_ms")} for each in reports]
    print("  ", json.dumps(shown), flush=True)
    rows = [row for row in server.requests() if first <= row["window"] < first + windows]
    (stop,) = server.ask("faults")["injected"]
    (until_ms,) = [until for each in heard for until in each["stops"]]
    banned = [row for row in rows if stop["at_ms"] < row["at_ms"] < until_ms]
    under_way = [row for row in banned if row["at_ms"] <= stop["at_ms"] + UNDER_WAY_MS]
    served = [sum(each["statuses"].values()) for each in heard]
    shares = [each["weight"] / LIMIT for each in reports]
    return {
        "http_429": sum(row["status"] == 429 for row in rows),
        "http_418": sum(row["status"] == 418 for row in rows),
        "worst_window": round(max(each["max_used"] for each in reports) / LIMIT, 4),
        "share": round(sum(shares) / windows, 4),
        "least_share": round(min(shares), 4),
        "sent_while_banned": len(banned) - len(under_way),
        "under_way_when_banned": len(under_way),
        "last_under_way_ms": max((row["at_ms"] - stop["at_ms"] for row in under_way), default=0),
        "banned_for_ms": until_ms - stop["at_ms"],
        "grant_spread": round(max(served) / max(1, min(served)), 2),
        "requests": len(rows),
        "windows": len(reports),
        "lag_ms": max(each["lag_ms"] for each in reports),
        "errors": {k: v for each in heard for k, v in each["errors"].items()},
    }


def measure(url: str, windows: int) -> dict[str, object]:
    """One store."""
    with serving() as server:
        first, heard = demand(server, url, windows)
        figures = judged(server, first, windows, heard)
    figures["lease_vs_bare_update"] = round(lease_vs_bare_update(url), 2)
    return figures


def measure_beside(url: str) -> dict[str, object]:
    """One store, beside a foreign client that is there all the time."""
    per_minute = STRANGERS_SHARE * LIMIT * 60 / WINDOW_S
    seconds = (BESIDE_WINDOWS + 6) * WINDOW_S
    with serving() as server:
        wanted = (server.address, str(seconds), str(per_minute))
        foreign = subprocess.Popen(
            [sys.executable, "-m", "bench._foreign_client", *wanted], stdout=subprocess.DEVNULL
        )
        try:
            first, _ = demand(server, url, BESIDE_WINDOWS, provoke=False)
        finally:
            foreign.terminate()
            foreign.wait()
        windows = range(first, first + BESIDE_WINDOWS)
        sleep_until(windows.stop * WINDOW_S + 0.5)
        reports = {each["window"]: each for each in server.ask("windows")["windows"]}
        rows = [row for row in server.requests() if row["window"] in windows]
    refused = [row for row in rows if row["status"] == 429]
    ours = Counter(row["window"] for row in refused if row["path"] not in _foreign_client.PATH)
    shares = [round(reports[window]["weight"] / LIMIT, 4) for window in windows]
    return {
        "ours_429_by_window": [ours[window] for window in windows],
        "http_418": sum(row["status"] == 418 for row in rows),
        "shares": shares,
        "share": round(sum(shares) / len(shares), 4),
        "lag_ms": max(reports[window]["lag_ms"] for window in windows),
    }


_names = count()


async def fresh_schema(server: str) -> str:
    """A place of its own in a PostgreSQL."""
    name = f"penstock_bench_{os.getpid()}_{next(_names)}"
    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE SCHEMA {name}")
    await connection.close()
    return f"{server}{'&' if '?' in server else '?'}search_path={name}"


def main(windows: int = WINDOWS) -> Mapping[str, object]:
    """One after the other: about nine minutes."""
    with tempfile.TemporaryDirectory() as folder:
        sqlite = measure(f"sqlite:{folder}/state.db", windows)
        beside = measure_beside(f"sqlite:{folder}/beside.db")
    with servers.postgresql() as server:
        postgresql = measure(asyncio.run(fresh_schema(server)), windows)
    return {"sqlite": sqlite, "postgresql": postgresql, "beside_foreign_client": beside}
