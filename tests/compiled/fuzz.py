"""Sends input to both paths until a time is over, the compiled one sanitised.

Frames, good and bad, are taken out of the bytes of connections, read and kept as books, deltas are
applied, events are appended to a log, records are gathered by stream, the last events kept, and
batches are packed and forwarded.

The extension is compiled anew with the address and undefined-behaviour sanitisers of gcc or clang,
where there is one, and the comparison runs in a process of its own, in which the first word of a
sanitiser is the end. A difference is reported with the seed that repeats it.

Usage: python -m tests.compiled.fuzz [--seconds 600] [--seed N]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PACKAGE = "src/penstock"
_ROUNDS_AT_ONCE = 20
_APPENDS_AT_ONCE = 60
_CONNECTIONS_AT_ONCE = 5


def run(seconds: float, seed: int) -> int:
    """Compare for so long; return the number of frames and records. Raises AssertionError."""
    from tests.compiled import (  # noqa: PLC0415 (as below)
        batches,
        deltas,
        gathered,
        latest,
        records,
        wires,
    )
    from tests.compiled.both import NATIVES, Both  # noqa: PLC0415 (in the process that compares)
    from tests.compiled.frames import Chance, some_frame  # noqa: PLC0415
    from tests.compiled.relays import BothRelays, some_batch  # noqa: PLC0415

    ends_s, frames = time.monotonic() + seconds, 0
    while time.monotonic() < ends_s:
        for exchange in NATIVES:
            chance, both = Chance(seed), Both(exchange)
            for _ in range(_ROUNDS_AT_ONCE):
                batch = [some_frame(exchange, chance) for _ in range(chance.choice((1, 1, 2, 30)))]
                frames += len(batch)
                try:
                    both.receive(batch)
                except Exception as error:
                    raise AssertionError(f"{exchange}, --seed {seed}: {error}") from error
        for part, rounds in (
            (records, _APPENDS_AT_ONCE),
            (batches, _ROUNDS_AT_ONCE),
            (deltas, _ROUNDS_AT_ONCE),
            (gathered, _ROUNDS_AT_ONCE),
            (latest, _ROUNDS_AT_ONCE),
            (wires, _CONNECTIONS_AT_ONCE),
        ):
            try:
                frames += part.run(seed, rounds)
            except Exception as error:
                raise AssertionError(f"{part.__name__}, --seed {seed}: {error}") from error
        chance, relays = Chance(seed), BothRelays()
        for _ in range(_ROUNDS_AT_ONCE):
            try:
                relays.receive(some_batch(chance), batch=True)
            except Exception as error:
                raise AssertionError(f"a batch, --seed {seed}: {error}") from error
        seed += 1
    return frames


def sanitised(folder: Path) -> tuple[dict[str, str], str]:
    """The environment of a process with a sanitised extension, and what it is; or why not."""
    package = folder / "src" / "penstock"
    shutil.copytree(ROOT / _PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    place = str(package / "compiled")
    script = [sys.executable, str(ROOT / "scripts" / "compile_hot.py"), "--sanitize", place]
    environment = dict(os.environ) | {"PYTHONPATH": f"{folder / 'src'}{os.pathsep}{ROOT}"}
    gcc = shutil.which("gcc") or shutil.which("clang")
    if gcc is None:
        return environment, "not sanitised: neither gcc nor clang is installed"
    done = subprocess.run(script, env=environment | {"CC": gcc}, check=False, capture_output=True)
    if done.returncode:
        return environment, "not sanitised: the sanitisers are not installed"
    # The process is Python's, which knows nothing of the sanitiser: it has to be loaded first.
    library = subprocess.run(
        [gcc, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return environment | {
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",  # Python leaves its own allocations
        "PYTHONMALLOC": "malloc",
    }, "sanitised"


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args(arguments)
    if options.here:
        print(f"{run(options.seconds, options.seed)} frames and records, no difference")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        environment, words = sanitised(Path(folder))
        print(f"--seconds {options.seconds:g} --seed {options.seed}, {words}", flush=True)
        command = [sys.executable, "-m", "tests.compiled.fuzz", "--here"]
        command += ["--seconds", str(options.seconds), "--seed", str(options.seed)]
        return subprocess.run(command, env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
