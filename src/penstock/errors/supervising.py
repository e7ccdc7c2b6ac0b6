"""Errors of the supervisor and of the commands that speak to it."""

from collections.abc import Iterable

from penstock.errors.base import PenstockError, hint, near_matches


class SupervisorRunning(PenstockError):
    """Another supervisor runs on this data folder."""

    def __init__(self, folder: str, holder: str) -> None:
        self.folder, self.holder = folder, holder
        by = f" (pid {holder})" if holder else ""
        super().__init__(
            f"A supervisor{by} runs on {folder} already. Stop it first, or choose another folder"
            " with --data-dir. `penstock restart NAME` restarts one of its processes."
        )


class NoSupervisor(PenstockError):
    """No supervisor answers on this data folder."""

    def __init__(self, folder: str, problem: str = "") -> None:
        self.folder = folder
        why = f" ({problem})" if problem else ""
        super().__init__(
            f"No supervisor answers on {folder}{why}. Start it with `penstock up`, or name its data"
            " folder with --data-dir."
        )


class NotSupervised(PenstockError):
    """The supervisor has no process of that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = list(known)
        self.name, self.near = name, near_matches(name, known)
        there = hint(self.near) or f" There are: {' '.join(known)}."
        super().__init__(f"The supervisor runs no process {name!r}.{there}")
