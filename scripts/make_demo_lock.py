"""Write constraints-demo.txt: the part of constraints.txt that `penstock demo` needs.

That is what the package requires with the extra `api`, for the console, and what builds it. Run it
in the environment of constraints.txt, whenever a pin there or a dependency in pyproject.toml
changes.
"""

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCK, DEMO_LOCK = ROOT / "constraints.txt", ROOT / "constraints-demo.txt"
_LEFT_OUT = "polyfactory"
"""litestar makes examples with it, which the API does not use; it requires 15 MB of Faker."""
_HEAD = f"# Written by scripts/make_demo_lock.py, from constraints.txt.\n# Left out: {_LEFT_OUT}\n"


def needed(requirements: Iterable[str]) -> set[str]:
    """The names of all distributions that these requirements lead to, as they are installed."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        requirement = waiting.pop()
        extras = frozenset(requirement.extras)
        if (requirement.name, extras) in found or requirement.name == _LEFT_OUT:
            continue
        found.add((requirement.name, extras))
        for each in map(Requirement, requires(requirement.name) or ()):
            marker = each.marker
            if marker is None or any(marker.evaluate({"extra": name}) for name in extras | {""}):
                waiting.append(each)
    return {canonicalize_name(name) for name, _ in found}


def demo_lock() -> str:
    """The content of the lock file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    # An editable installation needs editables, which the build backend does not list.
    package = project["project"]
    roots = [
        *package["dependencies"], *package["optional-dependencies"]["api"],
        *project["build-system"]["requires"], "editables",
    ]  # fmt: skip
    wanted = needed(roots)
    blocks = {
        canonicalize_name(block.partition("==")[0]): block
        for block in re.findall(r"^[\w.-]+==(?:.*\\\n)*.*\n", LOCK.read_text(), re.MULTILINE)
    }
    if missing := wanted - blocks.keys():
        raise SystemExit(f"{LOCK.name} lacks {', '.join(sorted(missing))}.")
    return _HEAD + "".join(block for name, block in blocks.items() if name in wanted)


if __name__ == "__main__":
    DEMO_LOCK.write_text(demo_lock())
