"""The simulator's shape libraries, built once and read from files: each process would take seconds.

The files belong to the source that built them: another source has others.
"""

import fcntl
import functools
import hashlib
import inspect
import pickle
import shutil
from pathlib import Path

from penstock.simulator.market import market, rng, shapes
from penstock.simulator.market.shapes import Library

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".pytest_cache" / "libraries"


def read_libraries_from_files() -> None:
    """Let every market of this process have its library from a file."""
    market._library = functools.cache(library)


def library(trades_per_minute: int, *, coarse: bool) -> Library:
    """The library of a trade rate; whoever needs it first builds it, and others wait."""
    folder = KEPT / _source()
    file = folder / f"{trades_per_minute}{'-coarse' if coarse else ''}.pickle"
    if not file.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with (KEPT / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                _build(file, trades_per_minute, coarse=coarse)
    built: Library = pickle.loads(file.read_bytes())
    return built


def _build(file: Path, trades_per_minute: int, *, coarse: bool) -> None:
    for old in KEPT.iterdir():
        if old.is_dir() and old != file.parent:
            shutil.rmtree(old)
    file.parent.mkdir(exist_ok=True)
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_bytes(pickle.dumps(Library(trades_per_minute, coarse=coarse)))
    unfinished.replace(file)


@functools.cache
def _source() -> str:
    sources = "".join(map(inspect.getsource, (shapes, rng)))
    return hashlib.sha256(sources.encode()).hexdigest()[:16]
