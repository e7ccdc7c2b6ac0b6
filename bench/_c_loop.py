"""The physical limit of decoding: what a plain loop in C takes to find every token of a frame."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

from bench.inputs.stored import Inputs

PASSES = 50
_SOURCE = Path(__file__).parent / "inputs" / "split.c"


def compiler() -> list[str] | None:
    """A C compiler: the system's, or the one from PyPI if it is installed."""
    if found := shutil.which("cc"):
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def measure_loop(inputs: Inputs, folder: Path) -> float | None:
    """Microseconds of CPU per frame; none without a compiler."""
    words = compiler()
    if words is None:
        return None
    program = folder / "split"
    if not program.exists():
        subprocess.run([*words, "-O2", "-o", program, _SOURCE], check=True)
    frames = inputs.folder / "split.txt"
    frames.write_bytes(b"\n".join(inputs.frames()))
    told = json.loads(subprocess.check_output([program, frames, str(PASSES)]))
    assert told["frames"] == PASSES * len(inputs.frames())
    return float(told["us"])
