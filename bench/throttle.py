"""penstock's throttle next to aiolimiter, throttled-py, pyrate-limiter, limits and ccxt's.

CPU time, so that other work on the machine matters little; a ratio is the peer's divided by ours.
All run in turn in one process, in an environment that holds the peers (``peers/``): the throttle
needs nothing but the standard library and penstock's ground, so it runs there as it is.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PINNED = ROOT / "bench" / "environments" / "throttle.txt"
PEERS = ("aiolimiter", "throttled-py", "pyrate-limiter", "limits", "ccxt")


def peers_python() -> Path:
    """The Python of the peers' environment, built if it is not there or its list has changed."""
    folder = ROOT / ".venvs" / "bench-throttle"
    ready = folder / ".ready"
    if not ready.exists() or ready.read_text() != PINNED.read_text():
        print(f"   building {folder.relative_to(ROOT)}", flush=True)
        subprocess.run(
            [ROOT / "scripts" / "make-venv", folder, PINNED],
            env={"PYTHON": sys.executable, **os.environ},
            stdout=sys.stderr,
            check=True,
        )
        ready.write_text(PINNED.read_text())
    return folder / "bin" / "python"


def versions() -> dict[str, str]:
    """What the peers are pinned to."""
    lines = PINNED.read_text().splitlines()
    pins = dict(line.rstrip(" \\").split("==") for line in lines if "==" in line)
    return {name: pins[name] for name in PEERS}


def main() -> Mapping[str, object]:
    """Run the contest in the peers' environment; its figures."""
    done = subprocess.run(
        [peers_python(), "bench/peers/throttle_contest.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return {**figures, "peers": versions()}
