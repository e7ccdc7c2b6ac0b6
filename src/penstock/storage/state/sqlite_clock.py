"""The clock of a SQLite state is the time since boot plus the boot's time, kept in a row per boot.

The time since boot is the same in every process of the machine, and no operator can step it. The
row is written by the first process that opens the file. On a machine that starts with a wrong time
of day (one without a battery-backed clock, until a time server has answered) that row is wrong. It
is replaced when the file is next opened, if the wall clock is a day or more ahead of it and no
other process has the file open: leases and due times of running processes are never moved.
"""

import sqlite3
from typing import NamedTuple

from penstock.clock import BootClock

_WRONG_NS = 24 * 3600 * 1_000_000_000


class Boot(NamedTuple):
    """The start of the machine's current boot, as stored in the state."""

    id: str
    began_at_ns: int


def find_boot(database: sqlite3.Connection, clock: BootClock) -> Boot:
    """The stored row of this boot, written if there is none. Within a transaction."""
    database.execute(
        "CREATE TABLE IF NOT EXISTS boots (boot_id TEXT PRIMARY KEY, began_at_ns INTEGER)"
    )
    boot = _known(database, clock)
    if boot is None:
        boot = Boot(clock.boot_id(), _by_wall_ns(clock))
        database.execute("INSERT INTO boots VALUES (?, ?)", boot)
    return boot


def correct_boot(database: sqlite3.Connection, clock: BootClock, busy_s: float) -> None:
    """Replace a row that was written while the wall clock was far behind, if it is safe."""
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'boots'").fetchone():
        return
    boot = _known(database, clock)
    if boot is None or _by_wall_ns(clock) - boot.began_at_ns < _WRONG_NS:
        return
    database.execute("PRAGMA busy_timeout = 0")
    try:
        # Only a sole connection can leave WAL mode, and every process that opens the file sets it.
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("BEGIN EXCLUSIVE")
        if database.execute("PRAGMA journal_mode").fetchone()[0] == "delete":
            # Another id: budgets marked with the old one count as used up, as after a boot.
            corrected = Boot(f"{boot.id}+", _by_wall_ns(clock))
            database.execute("INSERT INTO boots VALUES (?, ?)", corrected)
        database.execute("COMMIT")
    except sqlite3.OperationalError:
        if database.in_transaction:
            database.execute("ROLLBACK")
    finally:
        database.execute(f"PRAGMA busy_timeout = {round(busy_s * 1000)}")
        database.execute("PRAGMA journal_mode = WAL")


def _known(database: sqlite3.Connection, clock: BootClock) -> Boot | None:
    """The last row of this boot."""
    row = database.execute(
        "SELECT boot_id, began_at_ns FROM boots WHERE rtrim(boot_id, '+') = ?"
        " ORDER BY length(boot_id) DESC LIMIT 1",
        (clock.boot_id(),),
    ).fetchone()
    return None if row is None else Boot(*row)


def _by_wall_ns(clock: BootClock) -> int:
    return clock.wall_ns() - clock.since_boot_ns()
