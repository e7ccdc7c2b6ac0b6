"""Retention keeps the latest backup of each day, not too many, and always a verified one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backup.folders import add_backup

from penstock.backup.folder import ahead_of, find_backup
from penstock.backup.model import (
    ArchiveFormat,
    BackupFile,
    digest_line,
    name_of,
    read_digest,
    time_of,
)
from penstock.backup.retention import plan

NOW = datetime(2025, 3, 10, 12, tzinfo=UTC)

FORMATS: tuple[ArchiveFormat, ...] = ("gz", "zst")
MINUTES = st.integers(-14 * 1440, 2 * 1440)


def backup(minutes: int, verified: bool = True) -> BackupFile:
    at = NOW + timedelta(minutes=minutes)
    return BackupFile(name_of(at), at, size=1, verified=verified)


FOLDERS = st.dictionaries(MINUTES, st.booleans(), max_size=40).map(
    lambda found: [backup(minutes, verified) for minutes, verified in found.items()]
)


@given(FOLDERS, st.integers(1, 9))
def test_the_latest_of_each_day_is_kept_and_never_more_than_asked(
    folder: list[BackupFile], keep: int
) -> None:
    retained = plan(folder, keep, NOW)

    made = [each for each in folder if each.at <= NOW]
    counted = [each for each in retained.kept if each not in retained.ahead]
    days = sorted({each.at.date() for each in made}, reverse=True)
    latest = [max((b for b in made if b.at.date() == day), key=lambda b: b.at) for day in days]
    # The newest stays even if the only verified one takes the only place.
    assert len(counted) <= max(keep, 2 - latest[0].verified if latest else 0)
    assert counted[:1] == latest[:1]
    # One of them at most gives its place to the only verified one.
    assert len(set(latest[:keep]) - set(counted)) <= 1
    if any(each.verified for each in latest[:keep]):
        assert counted == latest[:keep]
    assert sorted(retained.kept + retained.deleted, key=lambda b: b.name) == sorted(
        folder, key=lambda b: b.name
    )


@settings(max_examples=4 * settings().max_examples)
@given(FOLDERS, st.integers(1, 9))
def test_a_verified_backup_is_kept_if_there_is_one(folder: list[BackupFile], keep: int) -> None:
    retained = plan(folder, keep, NOW)

    assert any(b.verified for b in retained.kept) == any(b.verified for b in folder)
    made = [each for each in folder if each.at <= NOW]
    counted = [each for each in retained.kept if each not in retained.ahead]
    assert any(b.verified for b in counted) == any(b.verified for b in made)


@given(FOLDERS, st.integers(1, 9))
def test_a_second_run_deletes_nothing_more(folder: list[BackupFile], keep: int) -> None:
    retained = plan(folder, keep, NOW)

    assert plan(retained.kept, keep, NOW).deleted == ()


@given(FOLDERS, st.integers(1, 9), st.lists(st.integers(1, 3 * 1440), max_size=20, unique=True))
def test_backups_from_the_future_displace_no_other(
    folder: list[BackupFile], keep: int, ahead: list[int]
) -> None:
    made = [each for each in folder if each.at <= NOW]
    future = [backup(minutes) for minutes in ahead]

    retained = plan([*made, *future], keep, NOW)

    assert not set(retained.deleted) & set(future)
    assert retained.deleted == plan(made, keep, NOW).deleted


@given(FOLDERS, st.integers(1, 9))
def test_a_clock_a_day_behind_deletes_nothing_that_the_right_one_keeps(
    folder: list[BackupFile], keep: int
) -> None:
    folder = [each for each in folder if each.at <= NOW and each.verified]

    wrong = plan(folder, keep, NOW - timedelta(days=1))

    assert not set(wrong.deleted) & set(plan(folder, keep, NOW).kept)


def test_an_unverified_newest_backup_does_not_displace_the_last_verified_one() -> None:
    folder = [backup(-minutes, verified=minutes == 4000) for minutes in (0, 1500, 3000, 4000)]

    retained = plan(folder, 2, NOW)

    assert [each.verified for each in retained.kept] == [False, True]


@given(st.integers(-(10**12), 10**12), st.sampled_from(FORMATS))
def test_a_name_has_the_time_to_the_millisecond(millis: int, archive_format: ArchiveFormat) -> None:
    at = NOW + timedelta(milliseconds=millis)

    name = name_of(at, archive_format)

    assert time_of(name) == at
    assert ":" not in name


def test_other_names_are_no_backups() -> None:
    name = name_of(NOW)
    for other in (
        "",
        name + ".sha256",
        name + ".1a2b3c4d.partial",
        "." + name,
        name + "\n",
        "../" + name,
        name.replace("2025", "\u0662\u0660\u0662\u0665"),
        "storage-2025-02-30T00-00-00-000.tar.gz",
        "storage-2025-02-20T25-00-00-000.tar.gz",
        "state.db",
    ):
        assert time_of(other) is None, other
    assert time_of("storage-2025-01-15T14-30-00.tar.gz") == datetime(
        2025, 1, 15, 14, 30, tzinfo=UTC
    )


def test_a_digest_file_is_that_of_its_archive() -> None:
    digest = "ab" * 32

    assert digest_line(digest, "a.tar.gz") == f"{digest}  a.tar.gz\n"
    assert read_digest(digest_line(digest, "a.tar.gz"), "a.tar.gz") == digest
    assert read_digest(f"{digest} *a.tar.gz", "a.tar.gz") == digest
    for wrong in ("", digest, digest_line(digest[1:], "a.tar.gz"), digest_line(digest, "b.tar.gz")):
        assert read_digest(wrong, "a.tar.gz") is None


def test_the_latest_is_not_one_from_the_future_unless_there_is_no_other(tmp_path: Path) -> None:
    ahead = add_backup(tmp_path, -1)
    assert find_backup(tmp_path, "latest", NOW).name == ahead
    older, newest = add_backup(tmp_path, 1), add_backup(tmp_path, -1 / 1440)

    assert find_backup(tmp_path, "latest", NOW).name == newest, "clocks differ by a minute"
    assert find_backup(tmp_path, ahead, NOW).name == ahead
    assert find_backup(tmp_path, older, NOW).name == older
    assert ahead_of(tmp_path, NOW) == [ahead]
