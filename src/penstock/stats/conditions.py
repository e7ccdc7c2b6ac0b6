"""What is wrong in a fleet now, found in what its processes wrote to the state store. Pure.

A rule is a function of ``Inputs``; a new one is added to ``RULES``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.backup.outcome import BackupOutcome
from penstock.config import Alerts
from penstock.connectors.model import Connector
from penstock.coverage.model import GapRow
from penstock.resilience.breaker import Breaker
from penstock.runtime.status import SeenProcess
from penstock.stats.alerts import Condition
from penstock.stats.fleet import is_up, named
from penstock.stats.statistics import StorageStatistics

_STREAMING = ("collect", "tickers")
"""Processes that receive data all the time. Fetchers ask at intervals that may be long."""
_FRESH_MS = 600_000
"""Statistics that are older than this are not judged."""
_BAN_MS = 10_000
"""Shorter stops are part of an exchange's usual limits."""
_LOOP_MS, _LOOP_STARTS = 600_000, 4
"""As many starts in this time are a loop of crashes."""
_DOWN_MS = 30_000
"""A process that ended may be started again within this time: a supervisor does so."""
_DAY_MS = 86_400_000
_BACKUP_MS = 7 * _DAY_MS
"""A data folder in use is backed up more often: an older outcome is of one that is not used."""


class Inputs(NamedTuple):
    """What rules judge. Times are those of the state store."""

    now_ms: int
    settings: Alerts
    processes: Sequence[SeenProcess] = ()
    gaps: Sequence[GapRow] = ()
    """The open ones."""
    connectors: Sequence[Connector] = ()
    breakers: Mapping[str, Breaker] = {}
    """By exchange."""
    statistics: Sequence[StorageStatistics] = ()
    backups: Sequence[BackupOutcome] = ()
    """How the last backup of each data folder ended."""
    starts: Mapping[str, int] = {}
    """By status: how often the process was started in the last minutes."""


Rule = Callable[[Inputs], Iterable[Condition]]


def open_gaps(inputs: Inputs) -> Iterator[Condition]:
    """Gaps that nobody has filled for a while."""
    before_ms = inputs.now_ms - inputs.settings.gaps_after * 1000
    found: dict[tuple[str, str], list[GapRow]] = {}
    for gap in inputs.gaps:
        if gap.opened_ms < before_ms:
            found.setdefault((gap.exchange, gap.channel), []).append(gap)
    for (exchange, channel), gaps in found.items():
        markets = sorted({gap.symbol for gap in gaps})
        shown = ", ".join(markets[:3]) + (f" and {len(markets) - 3} more" * (len(markets) > 3))
        age = _duration(inputs.now_ms - min(gap.opened_ms for gap in gaps))
        words = "1 gap is" if len(gaps) == 1 else f"{len(gaps):,} gaps are"
        yield Condition(
            rule="gaps",
            subject=f"{exchange}/{channel}",
            message=f"{words} open, the oldest for {age}: {shown}. See: penstock gaps",
        )


def stale(inputs: Inputs) -> Iterator[Condition]:
    """Processes that run and receive no data."""
    for name, seen in named(inputs.processes).items():
        status = seen.status
        last_ms = status.last_data_ms or status.started_ms
        silent_ms = status.at_ms - last_ms
        if (
            status.kind in _STREAMING
            and is_up(seen)
            and silent_ms > inputs.settings.stale_after * 1000
        ):
            yield Condition(
                rule="stale",
                subject=name,
                message=f"no data for {_duration(silent_ms)}. See: penstock status",
                severity="critical",
            )


def bans(inputs: Inputs) -> Iterator[Condition]:
    """Exchanges that ordered a stop."""
    for connector in inputs.connectors:
        left_ms = (connector.blocked_until or 0) - inputs.now_ms
        if left_ms > _BAN_MS:
            stop = connector.blocked_by
            status = f" ({stop.status})" if stop else ""
            yield Condition(
                rule="ban",
                subject=connector.exchange_id,
                message=f"the exchange ordered a stop{status}; nothing is sent"
                f" for {_duration(left_ms)}",
                severity="critical",
            )


def open_breakers(inputs: Inputs) -> Iterator[Condition]:
    """Circuit breakers that let nothing through."""
    for exchange, breaker in inputs.breakers.items():
        if not breaker.is_closed():
            forced = "an operator keeps the circuit breaker open"
            reason = f": {breaker.reason}" if breaker.reason else ""
            yield Condition(
                rule="breaker",
                subject=exchange,
                message=forced if breaker.forced else f"the circuit breaker is open{reason}",
                severity="warning" if breaker.forced else "critical",
            )


def full_disks(inputs: Inputs) -> Iterator[Condition]:
    """Disks that are nearly full, or soon will be."""
    for found in inputs.statistics:
        if inputs.now_ms - found.at_ms > _FRESH_MS:
            continue
        for disk in found.disks:
            subject = f"{found.host}:{disk.path}"
            percent = 100 * disk.free_bytes / (disk.size_bytes or 1)
            days = disk.days_until_full
            if percent < inputs.settings.disk_free_percent:
                words = f"{percent:.1f} % of the disk is free ({disk.free_bytes / 1e9:,.1f} GB)"
                yield Condition(rule="disk", subject=subject, message=words, severity="critical")
            elif days is not None and days < inputs.settings.disk_full_days:
                words = f"the disk is full in {days:.1f} days if data grows on as in the last day"
                yield Condition(rule="disk", subject=subject, message=words)


def failed_backups(inputs: Inputs) -> Iterator[Condition]:
    """Data folders whose last backup failed."""
    for backup in inputs.backups:
        if backup.problem and inputs.now_ms - backup.at_ms < _BACKUP_MS:
            words = f"the last backup failed: {backup.problem} See: penstock backup list"
            yield Condition(
                rule="backup", subject=_place(backup), message=words, severity="critical"
            )


def old_backups(inputs: Inputs) -> Iterator[Condition]:
    """Data folders in use whose last backup is too old, although it did not fail."""
    used = {(each.status.host, each.status.folder) for each in inputs.processes if is_up(each)}
    for backup in inputs.backups:
        age_ms = inputs.now_ms - (backup.made_ms or inputs.now_ms)
        is_old = age_ms > inputs.settings.backup_after * 1000
        if is_old and (backup.host, backup.folder) in used:
            words = f"the last backup is {_duration(age_ms)} old. Is a keeper running?"
            yield Condition(rule="backup_old", subject=_place(backup), message=words)


def failed_copies(inputs: Inputs) -> Iterator[Condition]:
    """Data folders whose backups could not be copied to their remote."""
    for backup in inputs.backups:
        if backup.copy_problem and inputs.now_ms - backup.at_ms < _BACKUP_MS:
            words = f"the backups are not copied to their remote: {backup.copy_problem}"
            yield Condition(rule="backup_copy", subject=_place(backup), message=words)


def _place(backup: BackupOutcome) -> str:
    return f"{backup.host}:{backup.folder}"


def down(inputs: Inputs) -> Iterator[Condition]:
    """Processes that should run and do not."""
    for name, seen in named(inputs.processes).items():
        if is_up(seen) or seen.silent_ms < _DOWN_MS:
            continue
        status = seen.status
        words = f"has not reported for {_duration(seen.silent_ms)}"
        if status.state == "failed":
            words = "; ".join(["it failed", *status.problems[:1]])
        place = f"{status.host}, {status.folder}"
        yield Condition(
            rule="process", subject=name, message=f"{words} ({place})", severity="critical"
        )


def crash_loops(inputs: Inputs) -> Iterator[Condition]:
    """Processes that are started again and again, and those that a supervisor has given up."""
    for name, seen in named(inputs.processes).items():
        starts = inputs.starts.get(seen.id, 0)
        if starts >= _LOOP_STARTS:
            words = f"started {starts} times in {_LOOP_MS // 60_000} minutes"
            yield Condition(rule="crash_loop", subject=name, message=words, severity="critical")
        for child in seen.status.children:
            if child.state == "given up":
                words = f"the supervisor has given it up: {child.reason}."
                yield Condition(
                    rule="crash_loop",
                    subject=f"{name}/{child.name}",
                    message=f"{words} To retry: penstock restart {child.name}",
                    severity="critical",
                )


RULES: tuple[Rule, ...] = (
    open_gaps,
    stale,
    bans,
    open_breakers,
    full_disks,
    failed_backups,
    old_backups,
    failed_copies,
    down,
    crash_loops,
)


def find_conditions(inputs: Inputs) -> list[Condition]:
    """Everything that is wrong now."""
    return [condition for rule in RULES for condition in rule(inputs)]


class StartCounter:
    """Counts the starts of processes, by the times in their statuses."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, int]] = {}
        """By status: when each start was noticed."""

    def observe(self, processes: Iterable[SeenProcess], now_ms: int) -> dict[str, int]:
        """By status: the starts that were noticed in the last minutes."""
        found: dict[str, dict[int, int]] = {}
        for each in processes:
            starts = self._seen.get(each.id, {})
            recent = {start: at for start, at in starts.items() if now_ms - at < _LOOP_MS}
            recent.setdefault(each.status.started_ms, starts.get(each.status.started_ms, now_ms))
            found[each.id] = recent
        self._seen = found
        return {
            id_: sum(now_ms - at < _LOOP_MS for at in starts.values())
            for id_, starts in found.items()
        }


def _duration(ms: float) -> str:
    seconds = round(ms / 1000)
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if ms < 2 * _DAY_MS else f"{seconds // 86_400} days"
