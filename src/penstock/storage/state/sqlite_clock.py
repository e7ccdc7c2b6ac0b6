"""The clock of a SQLite state: time since boot, made a time of day by a row per boot.

Every process of the machine reads the time since boot alike, and no operator can step it. The row
is written by whoever opens the file first. On a machine that begins at a wrong time of day (one
without a clock that outlives its power does so, until a time server has answered) that row is
wrong. It is replaced when the file is next opened, if the wall clock is a day or more ahead of it
and nobody else has the file open: leases and due times of processes that run are never moved.
"""

import sqlite3
from typing import NamedTuple

from penstock.clock import BootClock

_WRONG_NS = 24 * 3600 * 1_000_000_000


class Boot(NamedTuple):
    """Since when the machine runs, as the state has it."""

    id: str
    began_at_ns: int


def find_boot(database: sqlite3.Connection, clock: BootClock) -> Boot:
    """What the state says of this boot; written down if nobody has. Within a transaction."""
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
        # Only the one connection there is can leave WAL mode, and whoever opens the file enters it.
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
