"""``make planted``: plant each bug in a copy, and see that its tests catch it.

Without names, every bug is planted. The last line is one JSON object; the exit code is 1 if one
was missed.
"""

import json
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.planted.planting import Bug, Copy, PatchInvalid, bugs

_AT_ONCE = 2


def main(names: list[str]) -> int:
    known = {bug.name: bug for bug in bugs()}
    if unknown := [name for name in names if name not in known]:
        print(f"No planted bug is called {', '.join(unknown)}: see tests/planted/bugs.")
        return 2
    chosen = [known[name] for name in names] or list(known.values())
    with tempfile.TemporaryDirectory(prefix="penstock-planted-") as folder:
        copies = SimpleQueue[Copy]()
        for number in range(_AT_ONCE):
            copies.put(Copy(Path(folder) / str(number)))
        failing = _failing_without(copies, chosen)
        missed = [] if failing else _missed(copies, chosen)
    print(json.dumps({"planted": len(chosen), "missed": len(missed)}))
    return 1 if missed or failing else 0


def _failing_without(copies: "SimpleQueue[Copy]", chosen: Iterable[Bug]) -> bool:
    """Whether tests fail although nothing is planted: they could prove nothing then."""
    copy = copies.get()
    done = copy.run(sorted({test for bug in chosen for test in bug.tests}))
    copies.put(copy)
    if done.returncode:
        print(f"Before anything was planted:\n{done.stdout}{done.stderr}", file=sys.stderr)
    return done.returncode != 0


def _missed(copies: "SimpleQueue[Copy]", chosen: list[Bug]) -> list[Bug]:
    def judge(bug: Bug) -> Bug | None:
        copy = copies.get()
        try:
            caught, why = copy.judge(bug).caught, bug.says
        except PatchInvalid as error:
            caught, why = False, str(error)
        finally:
            copies.put(copy)
        print(f"{'caught' if caught else 'MISSED'}  {bug.name}: {why}", flush=True)
        return None if caught else bug

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return [bug for bug in threads.map(judge, chosen) if bug is not None]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
