"""Python, space, syncs, permissions and partial files."""

import errno
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.config import Bus
from penstock.doctor import Subject, machine, worst
from penstock.doctor.folder import check_partial_files, check_permissions
from penstock.doctor.machine import check_python, check_space, check_syncs, existing
from penstock.files import is_partial, replace_file

from .conftest import names_in, set_mode

GB = 10**9


async def test_an_old_python_is_a_problem(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worst(await check_python(subject)) == 0
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    [found] = await check_python(subject)
    assert (found.level, found.remedy) == ("problem", "Install Python 3.11 or newer.")


@pytest.mark.parametrize(("free", "code"), [(50, 0), (10, 0), (9, 1), (2, 1), (1, 2), (0, 2)])
async def test_a_full_disk_is_seen_before_it_is_full(
    free: int, code: int, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil._ntuple_diskusage(100 * GB, (100 - free) * GB, free * GB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    found = list(await check_space(subject))
    assert worst(found) == code
    assert len(found) == 1, "data and lake are on one disk"
    assert f"{free}.0 GB" in found[0].words


@pytest.mark.parametrize(("ms", "code"), [(1.0, 0), (300.0, 1), (3000.0, 2)])
async def test_a_slow_disk_is_told(
    ms: float, code: int, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "sync_ms", lambda *_: ms)
    assert worst(await check_syncs(subject)) == code


async def test_syncs_are_measured_and_leave_nothing(subject: Subject, tmp_path: Path) -> None:
    [found] = await check_syncs(subject)
    assert "ms to reach the disk" in found.words
    assert names_in(tmp_path) == []


async def test_a_disk_without_room_is_a_problem(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    [found] = await check_syncs(subject)
    assert found.level == "problem"
    assert "No space left" in found.words


def test_a_folder_that_does_not_exist_is_checked_where_it_would_be(tmp_path: Path) -> None:
    assert existing(tmp_path / "a" / "b") == tmp_path


async def test_what_cannot_be_written_is_a_problem(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worst(await check_permissions(subject)) == 0
    (tmp_path / "state.db").touch()
    refused = tmp_path / "state.db"
    # Tests may run as root, whom no mode refuses.
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != refused)
    [found, *_] = await check_permissions(subject)
    assert (found.level, str(refused) in found.words) == ("problem", True)
    refused = tmp_path
    [found, *_] = await check_permissions(subject)
    assert (found.level, "chown" in found.remedy) == ("problem", True)
    assert list(await check_syncs(subject)) == []


async def test_a_file_in_place_of_the_folder_is_a_problem(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    collect = replace(subject.settings.collect, data_dir=str(tmp_path / "file"))
    [found, *_] = await check_permissions(
        subject._replace(settings=replace(subject.settings, collect=collect))
    )
    assert (found.level, "is not a folder" in found.words) == ("problem", True)


async def test_what_others_can_change_or_read_is_told(subject: Subject, tmp_path: Path) -> None:
    key = tmp_path / "bus.key"
    key.touch(0o600)
    keyed = subject._replace(settings=replace(subject.settings, bus=Bus(key_file=str(key))))
    assert worst(await check_permissions(keyed)) == 0
    key.chmod(0o644)
    assert worst(await check_permissions(keyed)) == 2
    set_mode(tmp_path, 0o777)
    levels = [each.level for each in await check_permissions(subject)]
    assert "warning" in levels
    set_mode(tmp_path, 0o700)


async def test_old_partial_files_are_named_and_young_ones_are_left_alone(
    subject: Subject, tmp_path: Path
) -> None:
    (tmp_path / "status").mkdir()
    left = [tmp_path / "status" / ".collect.json.4711", tmp_path / "checkpoints" / "x"]
    left[1].mkdir(parents=True)
    left[0].touch()
    (tmp_path / ".hidden").touch()
    assert worst(await check_partial_files(subject)) == 0
    old_s = time.time() - 4000
    for path in (*left, tmp_path / ".hidden"):
        os.utime(path, (old_s, old_s))
    [found] = await check_partial_files(subject)
    assert (found.level, found.words[:7]) == ("warning", "2 files")
    assert all(str(path) in found.remedy for path in left)


def test_partial_files_have_the_names_that_writing_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list[str]()

    def fail(path: Path, _target: Path) -> None:
        names.append(path.name)
        raise OSError("refused")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="refused"):
        replace_file(tmp_path / "status.json", b"{}")
    assert [is_partial(name) for name in (*names, "status.json", ".x", "x.1")] == [
        True, False, False, False,
    ]  # fmt: skip
