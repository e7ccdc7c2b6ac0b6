"""``penstock backup``: made, listed, verified and restored from the command line."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.backup.archives import NAME, manifest_of
from tests.backup.making.conftest import trades
from tests.forked import command

from penstock.backup.archive import ArchiveWriter
from penstock.backup.manifest import Part, encode
from penstock.publish.endpoints import find_log_id
from penstock.storage.log import open_log


def run(*words: object, code: int = 0) -> tuple[str, str]:
    process = command(["backup", *map(str, words)], stdout=-1, stderr=-1)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, (out, err)
    return out, err


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    with closing(open_log(f"rocksdb:{folder}").writer("collect-toy")) as writer:
        writer.append(trades(1, 50))
    return folder


def test_a_backup_is_made_listed_verified_and_restored(data: Path, tmp_path: Path) -> None:
    backups = tmp_path / "backups"

    out, _ = run("run", "--data-dir", data, "--folder", backups, "--json")
    made = json.loads(out)
    listed = [
        json.loads(line) for line in run("list", "--folder", backups, "--json")[0].split("\n")[:-1]
    ]
    verified = json.loads(run("verify", "--folder", backups, "--json")[0])
    run("restore", made["name"], "--folder", backups, "--to", tmp_path / "restored")

    assert made["verified"] is True
    assert made["parts"]["live"]["included"] is False
    assert [(each["name"], each["verified"]) for each in listed] == [(made["name"], True)]
    assert (verified["intact"], verified["slots"]) == (True, ["collect-toy"])
    assert (tmp_path / "restored" / "log" / "collect-toy" / "CURRENT").is_file()
    _, refusal = run("restore", "--folder", backups, "--to", tmp_path / "restored", code=2)
    assert "is not empty" in refusal


def test_a_flipped_byte_and_a_truncated_archive_are_found(data: Path, tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    run("run", "--data-dir", data, "--folder", backups, "--no-rehearse")
    [archive] = backups.glob("*.gz")
    good = archive.read_bytes()
    archive.write_bytes(good[:200] + bytes([good[200] ^ 1]) + good[201:])
    out, _ = run("verify", archive, "--json", code=1)
    assert json.loads(out)["intact"] is False
    archive.write_bytes(good[:-100])
    _, err = run("restore", archive, "--to", tmp_path / "restored", code=2)
    assert "Use another backup" in err
    assert not (tmp_path / "restored").exists()


def test_wrong_words_are_answered_with_what_to_do(data: Path, tmp_path: Path) -> None:
    assert "Set backup.folder" in run("run", "--data-dir", data, code=2)[1]
    assert "penstock backup run" in run("list", "--folder", tmp_path)[1]
    assert "There is no backup in" in run("verify", "--folder", tmp_path, code=2)[1]
    assert "is not a backup" in run("verify", tmp_path / "nothing.zip", code=2)[1]


def test_a_restore_beside_a_lake_elsewhere_says_that_the_log_has_a_new_id(tmp_path: Path) -> None:
    parts = {
        "state": Part(kind="sqlite", included=True),
        "lake": Part(kind="s3", included=False, note="It is in an object store."),
    }
    listed = replace(manifest_of({}), parts=parts)
    archive = ArchiveWriter(tmp_path, NAME, "gz").finish(encode(listed), 1).path

    out, err = run("restore", archive, "--to", tmp_path / "restored")

    assert "the restored log has a new id. Give it a folder of backups of its own" in err
    assert "penstock verify" in out
    assert find_log_id(tmp_path / "restored") is not None
