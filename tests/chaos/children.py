"""Processes of the chaos tests: a simulator, and a nursery that forks one command after another."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, Any

PENSTOCK = [sys.executable, "-m", "penstock"]


@contextmanager
def simulating(
    exchange: str, seed: int, words: Sequence[str], limits: Mapping[str, str], errors: IO[bytes]
) -> Iterator[str]:
    """A simulator's address."""
    begin = ["sim", exchange, "--port", "0", "--json", "--seed", str(seed % 1000)]
    process = subprocess.Popen(
        [*PENSTOCK, *begin, *words],
        env={**os.environ, **limits},
        stdout=subprocess.PIPE, stderr=errors,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["listening"]
    finally:
        process.kill()
        process.communicate()


def collecting(exchange: str, address: str, folder: Path) -> dict[str, str]:
    """The environment of collectors of a simulated exchange, and of their judge."""
    return {
        **os.environ,
        "PENSTOCK_EXCHANGES_REST_URLS": f"{exchange}={address}",
        "PENSTOCK_EXCHANGES_STREAM_URLS": f"{exchange}={address}",
        "PENSTOCK_COLLECT_DATA_DIR": str(folder),
        "PENSTOCK_COLLECT_BOOK_EVERY": "0.5",
    }


def judged(address: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """What the judge finds."""
    done = subprocess.run(
        [*PENSTOCK, "judge", address, "--json"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    findings: dict[str, Any] = json.loads(done.stdout)
    return findings


@dataclass
class Nursery:
    """Where processes come from: forked, because a life is shorter than a start."""

    process: subprocess.Popen[str]
    asking: Lock = field(default_factory=Lock)

    def begin(self, errors: Path, words: Sequence[str] = ()) -> int:
        """The process id of a worker, or of the command that these words are."""
        with self.asking:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write("\t".join([str(errors), *words]) + "\n")
            self.process.stdin.flush()
            return int(self.process.stdout.readline())


@contextmanager
def nursery(environment: Mapping[str, str]) -> Iterator[Nursery]:
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("nursery.py")],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield Nursery(process)
    finally:
        process.kill()
        process.communicate()
