"""Checks: damage of a slot that RocksDB does not report when it opens it."""

from contextlib import suppress
from pathlib import Path

from penstock.errors import LogDamaged
from penstock.storage.log.damage import MANIFESTS, TABLES, WALS, record_problem
from penstock.storage.log.manifest import missing_tables, read_manifest


def check_files(folder: Path) -> None:
    """Look for damage that RocksDB does not report when it opens a slot.

    Raises:
        LogDamaged: there is some.
    """
    # Without this file RocksDB would begin anew, and delete what is there.
    if not (folder / "CURRENT").exists():
        if any(folder.glob(TABLES)) or any(file.stat().st_size for file in folder.glob(WALS)):
            raise LogDamaged(folder.name, str(folder), "CURRENT is missing, but not the data")
        return
    for problem in bad_records(folder).values():
        raise LogDamaged(folder.name, str(folder), problem)
    check_tables(folder)


def bad_records(folder: Path) -> dict[str, str]:
    """Damage in write-ahead logs and the MANIFEST, by file, that looks like a record cut short."""
    needed = read_manifest(folder).first_wal
    wals = [
        file
        for file in sorted(folder.glob(WALS))
        # One that was just begun may follow one that was cut short when its process died.
        if int(file.stem) >= needed and file.stat().st_size
    ]
    found: dict[str, str] = {}
    for file in [*wals, *folder.glob(MANIFESTS)]:
        with suppress(FileNotFoundError):  # its owner may run, and delete it
            problem = record_problem(file, is_last=file not in wals[:-1])
            if problem:
                found[file.name] = problem
    return found


def check_tables(folder: Path) -> None:
    """Whether all tables of a slot are there and complete: readers pass over others in silence.

    Raises:
        LogDamaged: one is not.
    """
    problems = missing_tables(folder)
    if problems:
        raise LogDamaged(folder.name, str(folder), ", ".join(problems.values()))
