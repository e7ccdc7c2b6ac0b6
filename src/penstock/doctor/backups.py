"""Checks when the last backup was made, and whether it was restored as a test."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from penstock.backup.folder import list_backups
from penstock.doctor.model import Finding, Subject, in_thread, ok, problem, warning

_LATE, _TOO_LATE = 2, 8
"""How many intervals old the last backup may be."""


async def check_backup(subject: Subject) -> Iterable[Finding]:
    """The age of the last backup, and whether it was verified."""
    backup = subject.settings.backup
    if not backup.folder:
        words = "no backup folder is set"
        return [warning("backup", words, "Set backup.folder, on another disk than the data.")]
    found = await in_thread(lambda: list_backups(Path(backup.folder)))
    run = "Run: penstock backup run; the keeper makes backups as long as it runs: penstock keep"
    if not found:
        return [problem("backup", f"there is none in {backup.folder}", run)]
    last = found[-1]
    age_s = (datetime.fromtimestamp(subject.clock.now_ms() / 1000, UTC) - last.at).total_seconds()
    words = f"{last.name} was made {_age(age_s)} ago"
    if age_s > _TOO_LATE * backup.every:
        return [problem("backup", words, run)]
    if age_s > _LATE * backup.every:
        return [warning("backup", words, run)]
    if not last.verified:
        words = f"{words}, and was not restored as a test"
        return [warning("backup", words, f"Run: penstock backup verify {last.name}")]
    return [ok("backup", f"{words}, and was verified")]


def _age(seconds: float) -> str:
    minutes = max(round(seconds / 60), 0)
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes / 60:,.0f} hours" if minutes < 2880 else f"{minutes / 1440:,.0f} days"
