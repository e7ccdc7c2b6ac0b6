"""Conditions: what is wrong is found in what processes wrote, and nothing else is."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.stats.test_scraping import seen

from penstock.api.examples import connector
from penstock.backup.outcome import BackupOutcome
from penstock.config import Alerts
from penstock.connectors.stops import Stop
from penstock.coverage.model import GapRow
from penstock.resilience.breaker import Breaker
from penstock.runtime.status import ChildStatus
from penstock.stats.conditions import RULES, Inputs, StartCounter, find_conditions
from penstock.stats.statistics import DiskStatistics, StorageStatistics

NOW_MS = 1_800_000_000_000
MINUTE_MS = 60_000
FOLDER = Path("/data")
QUIET = Inputs(NOW_MS, Alerts())


def found(inputs: Inputs) -> dict[str, str]:
    return {each.id: each.message for each in find_conditions(inputs)}


def gap(symbol: str, age_ms: int) -> GapRow:
    return GapRow(
        exchange="toy", channel="trades", symbol=symbol, by="id", first=1, last=2, cause="lost",
        opened_ms=NOW_MS - age_ms,
    )  # fmt: skip


def disk(free: int, days: float | None = None, age_ms: int = 0) -> StorageStatistics:
    part = DiskStatistics(
        path="/data", size_bytes=1000, free_bytes=free, data_bytes=1, days_until_full=days
    )
    return StorageStatistics(
        host="a", folder="/data", at_ms=NOW_MS - age_ms, took_ms=1, disks=(part,), directories=()
    )


def test_a_fleet_without_problems_has_no_condition() -> None:
    fine = Inputs(
        NOW_MS,
        Alerts(),
        [
            seen("collect-a", FOLDER, 1, at_ms=NOW_MS, last_data_ms=NOW_MS - 1000),
            seen("fetch-a", FOLDER, 2, at_ms=NOW_MS, last_data_ms=NOW_MS - 10**7),
            seen("work-0", FOLDER, 3, at_ms=NOW_MS),
            seen("keep", FOLDER, 4, state="stopped", silent_ms=10**6),
        ],
        [gap("btc_usdt", 9 * MINUTE_MS)],
        [replace(connector("toy"), blocked_until=NOW_MS + 5000)],
        {"toy": Breaker(), "other": Breaker(phase="open", forced="closed")},
        [disk(100, 3.0), disk(1, age_ms=20 * MINUTE_MS)],
        starts={"work-0/3": 3},
    )

    assert found(QUIET) == {}
    assert found(fine) == {}


def test_old_gaps_are_one_condition_for_each_channel() -> None:
    gaps = [gap(name, 11 * MINUTE_MS) for name in "abcd"] + [gap("e", 60 * MINUTE_MS)]

    [(id_, message)] = found(QUIET._replace(gaps=gaps)).items()

    assert id_ == "gaps/toy/trades"
    assert message.startswith("5 gaps are open, the oldest for 60 min: a, b, c and 2 more.")


def test_a_collector_without_data_is_stale_and_one_that_is_down_is_only_down() -> None:
    old = {"at_ms": NOW_MS, "started_ms": 0, "last_data_ms": NOW_MS - 301_000}
    processes = [
        seen("collect-a", FOLDER, 1, **old),
        seen("tickers-a", FOLDER, 2, at_ms=NOW_MS, started_ms=NOW_MS - 400_000),
        seen("collect-b", FOLDER, 3, **old, silent_ms=60_000),
        seen("work-0", FOLDER, 4, state="failed", problems=["Oops: it broke"], silent_ms=31_000),
        seen("work-1", FOLDER, 5, state="failed", silent_ms=29_000),
    ]

    conditions = found(QUIET._replace(processes=processes))

    assert set(conditions) == {
        "stale/collect-a", "stale/tickers-a", "process/collect-b", "process/work-0",
    }  # fmt: skip
    assert conditions["process/collect-b"].startswith("has not reported for 60 s (")
    assert "it failed; Oops: it broke" in conditions["process/work-0"]
    assert "/data" in conditions["process/work-0"]


def test_bans_and_breakers_are_found() -> None:
    stop = Stop(status=418, path="/p", words="", said_at=1, asked_until=1)
    banned = replace(connector("toy"), blocked_until=NOW_MS + 120_000, blocked_by=stop)
    breakers = {"toy": Breaker(phase="half_open", reason="(503)"), "x": Breaker(forced="open")}

    conditions = found(QUIET._replace(connectors=[banned], breakers=breakers))

    assert conditions == {
        "ban/toy": "the exchange ordered a stop (418); nothing is sent for 2 min",
        "breaker/toy": "the circuit breaker is open: (503)",
        "breaker/x": "an operator keeps the circuit breaker open",
    }


@pytest.mark.parametrize(
    ("statistics", "words"),
    [(disk(99), "9.9 % of the disk is free"), (disk(500, 2.94), "the disk is full in 2.9 days")],
)
def test_a_disk_that_is_nearly_full_or_soon_will_be(
    statistics: StorageStatistics, words: str
) -> None:
    [(id_, message)] = found(QUIET._replace(statistics=[statistics])).items()

    assert id_ == "disk/a:/data"
    assert message.startswith(words)


def test_failed_backups_and_processes_that_were_given_up() -> None:
    children = [
        ChildStatus(name=name, state=state, reason="exit code 1")
        for name, state in (("work:0", "given up"), ("serve", "waiting"))
    ]
    supervisor = seen("up", FOLDER, 1, children=children)

    good = BackupOutcome(log_id="1", folder="/data", host="a", at_ms=NOW_MS)
    bad = replace(good, log_id="2", host="b", problem="The disk is full.")

    unused = replace(bad, log_id="3", host="c", at_ms=NOW_MS - 8 * 86_400_000)

    conditions = found(QUIET._replace(processes=[supervisor], backups=[good, bad, unused]))

    assert set(conditions) == {"backup/b:/data", "crash_loop/up/work:0"}
    assert "penstock restart work:0" in conditions["crash_loop/up/work:0"]


def test_backups_that_are_too_old_or_are_not_copied() -> None:
    day_ms, used = 86_400_000, seen("keep", FOLDER, 1)
    good = BackupOutcome(
        log_id="1", folder=used.status.folder, host=used.status.host, at_ms=NOW_MS,
        made_ms=NOW_MS - day_ms, copied_ms=NOW_MS,
    )  # fmt: skip
    old = replace(good, log_id="2", made_ms=NOW_MS - 2 * day_ms)
    unused = replace(old, log_id="3", folder="/other")
    alone = replace(good, log_id="4", copy_problem="s3: it has no space.")

    conditions = found(QUIET._replace(processes=[used], backups=[good, old, unused, alone]))

    assert conditions == {
        f"backup_old/{used.status.host}:{used.status.folder}": "the last backup is 2 days old."
        " Is a keeper running?",
        f"backup_copy/{used.status.host}:{used.status.folder}": "the backups are not copied to"
        " their remote: s3: it has no space.",
    }


def test_a_loop_of_crashes_is_noticed_without_a_supervisor_and_forgotten_after_it() -> None:
    counter = StartCounter()
    for number in range(4):
        now_ms = NOW_MS + number * MINUTE_MS
        process = seen("work-0", FOLDER, number, started_ms=now_ms)
        process = process._replace(id="work-0")
        starts = counter.observe([process], now_ms)

    assert starts == {"work-0": 4}
    assert set(found(QUIET._replace(processes=[process], starts=starts))) == {"crash_loop/work-0"}
    later = counter.observe([process], NOW_MS + 20 * MINUTE_MS)
    assert later == {"work-0": 0}, "the last start is long ago, too"
    assert counter.observe([], NOW_MS + 20 * MINUTE_MS) == {}


def test_every_rule_says_what_it_finds() -> None:
    assert all(rule.__doc__ for rule in RULES)
