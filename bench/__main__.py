"""Runs benchmarks: ``bench/run [NAME] [--case CASE [--side SIDE]] [--json] [--list]``.

A benchmark is a module in this folder with a ``main`` that prints what it does and returns its
figures. Beside them stands what they depend on: the machine, its load, and the versions.
"""

import argparse
import json
import os
import platform
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

Main = Callable[[], Mapping[str, object]]

NAMES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if not p.stem.startswith("_"))


def describe_machine() -> dict[str, object]:
    """What the figures depend on, besides the code."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_average": [round(each, 2) for each in os.getloadavg()],
        "machine": platform.machine(),
        "python": platform.python_version(),
        # One that pyenv built takes a fifth more than Debian's, which is compiled with profiles.
        "interpreter": str(Path(sys.executable).resolve()),
        "versions": {name: version(name) for name in ("penstock", "aiohttp", "msgspec")},
    }


def run(name: str, case: str | None = None, side: str | None = None) -> Mapping[str, object]:
    """Run one benchmark, or one case of it; its figures, with the machine as it was before."""
    machine = describe_machine()
    print(f"== {name}: {json.dumps(machine)}", flush=True)
    module = import_module(f"bench.{name}")
    if case is not None and not hasattr(module, "run_case"):
        raise SystemExit(f"{name} is measured as a whole: run it without --case.")
    main: Main = module.main if case is None else partial(module.run_case, case, side)
    figures = main()
    for figure, value in figures.items():
        print(f"{figure:>28}  {value}", flush=True)
    return {**figures, "machine": machine}


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run", description="Run one benchmark, or all.", epilog="Example: bench/run sim"
    )
    parser.add_argument("name", nargs="?", choices=NAMES, help="which one; all, if none is named")
    parser.add_argument("--case", help="one case of it alone, where it has cases")
    parser.add_argument("--side", help="one side of that case alone: ours, or a peer's name")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--list", action="store_true", help="name them and stop")
    return parser.parse_args()


def main() -> None:
    arguments = read_arguments()
    # So that whoever is told to end ends the processes that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if arguments.list:
        print("\n".join(NAMES))
        return
    one = arguments.name, arguments.case, arguments.side
    results = run(*one) if arguments.name else {name: run(name) for name in NAMES}
    if arguments.json:
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
