"""The processes of a fleet: which should run, which do, and what they are called in metrics."""

from collections import Counter
from collections.abc import Iterable

from penstock.runtime.status import SeenProcess


def is_expected(seen: SeenProcess) -> bool:
    """Whether a process should be running."""
    return seen.status.state in ("starting", "running")


def is_up(seen: SeenProcess) -> bool:
    """Whether a process runs and says so."""
    return is_expected(seen) and not seen.gone


def named(seen: Iterable[SeenProcess]) -> dict[str, SeenProcess]:
    """Processes by their names in metrics: unique, and as short as possible.

    Stopped ones are left out, and ones whose place another has taken, such as a new container.
    """
    left = [each for each in seen if each.status.state != "stopped"]
    running = {_place(each) for each in left if is_up(each)}
    left = [each for each in left if is_up(each) or _place(each) not in running]
    found: dict[str, SeenProcess] = {}
    names = Counter(each.status.name for each in left)
    hosts = Counter((each.status.name, each.status.host) for each in left)
    for each in left:
        status = each.status
        name = status.name
        if names[name] > 1:
            name += f"@{status.host}"
            if hosts[status.name, status.host] > 1:
                name += f":{status.folder}"
        # The ids differ, though all else may be the same.
        found[name if name not in found else f"{name}#{each.id}"] = each
    return found


def _place(seen: SeenProcess) -> tuple[str, str]:
    return seen.status.folder, seen.status.name
