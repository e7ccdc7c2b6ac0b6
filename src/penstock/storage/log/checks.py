"""Finds damage of a slot that RocksDB does not report when it opens it."""

from contextlib import suppress
from pathlib import Path

from penstock.errors import LogDamaged
from penstock.storage.log.damage import MANIFESTS, TABLES, WALS, record_problem
from penstock.storage.log.manifest import missing_tables, read_manifest


def check_files(folder: Path) -> None:
    """Check for damage that RocksDB does not report when it opens a slot.

    Raises:
        LogDamaged: there is some.
    """
    # Without this file RocksDB would create a new database, and delete the existing files.
    if not (folder / "CURRENT").exists():
        if any(folder.glob(TABLES)) or any(file.stat().st_size for file in folder.glob(WALS)):
            raise LogDamaged(folder.name, str(folder), "CURRENT is missing, but not the data")
        return
    for problem in bad_records(folder).values():
        raise LogDamaged(folder.name, str(folder), problem)
    check_tables(folder)


def bad_records(folder: Path) -> dict[str, str]:
    """Damage in write-ahead logs and the MANIFEST that looks like an incomplete record, by file."""
    needed = read_manifest(folder).first_wal
    wals = [
        file
        for file in sorted(folder.glob(WALS))
        # An empty new one may follow one that is incomplete because its process was killed.
        if int(file.stem) >= needed and file.stat().st_size
    ]
    found: dict[str, str] = {}
    for file in [*wals, *folder.glob(MANIFESTS)]:
        with suppress(FileNotFoundError):  # a running owner may delete it
            problem = record_problem(file, is_last=file not in wals[:-1])
            if problem:
                found[file.name] = problem
    return found


def check_tables(folder: Path) -> None:
    """Check that all tables of a slot exist and are complete: readers skip others silently.

    Raises:
        LogDamaged: one is not.
    """
    problems = missing_tables(folder)
    if problems:
        raise LogDamaged(folder.name, str(folder), ", ".join(problems.values()))
