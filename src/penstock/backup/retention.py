"""Which backups are kept: the latest of each day, and not too many. Pure.

Nothing is deleted by age, so a clock that is wrong deletes nothing that the right one would keep
for long. A backup dated after ``now`` was made while a clock was wrong, or the clock is wrong now:
it is kept, and takes no place of another one, until its time has come.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from penstock.backup.model import BackupFile


@dataclass(frozen=True)
class Retained:
    """What a retention keeps and what it deletes, each newest first."""

    kept: tuple[BackupFile, ...]
    """Those dated after ``now`` included."""
    ahead: tuple[BackupFile, ...]
    """Those of the kept ones that are dated after ``now``: they are not counted."""
    deleted: tuple[BackupFile, ...]


def plan(backups: Sequence[BackupFile], keep: int, now: datetime) -> Retained:
    """Return which backups to keep: the latest of each calendar day (UTC), at most ``keep``.

    If none of these is verified, the newest verified backup takes the place of the oldest of them:
    a verified backup is kept whenever there is one. The newest backup is kept too, also if ``keep``
    is 1: it has records that no other has, and without it another one would be due at once.
    """
    assert keep >= 1, "a retention keeps at least one backup"
    newest_first = sorted(backups, key=lambda backup: (backup.at, backup.name), reverse=True)
    ahead = tuple(backup for backup in newest_first if backup.at > now)
    made = newest_first[len(ahead) :]
    latest: dict[str, BackupFile] = {}
    for backup in made:
        latest.setdefault(f"{backup.at.astimezone(UTC):%Y-%m-%d}", backup)
    chosen = list(latest.values())[:keep]
    if not any(backup.verified for backup in chosen):
        verified = [backup for backup in made if backup.verified][:1]
        chosen = chosen[: max(1, keep - len(verified))] + verified
    names = {backup.name for backup in (*ahead, *chosen)}
    return Retained(
        kept=tuple(backup for backup in newest_first if backup.name in names),
        ahead=ahead,
        deleted=tuple(backup for backup in newest_first if backup.name not in names),
    )
