"""Who holds a port, from the tables Linux shows."""

import os
import socket
from pathlib import Path

import pytest

from penstock.net.port_owner import port_owner

HEADER = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode"
)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Port 8790 (0x2256) listened on by inode 42; a client of the same number is inode 43."""
    (tmp_path / "net").mkdir()
    rows = [
        "0: 0100007F:2256 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 42 1",
        "1: 0100007F:2256 0100007F:9999 01 00000000:00000000 00:00000000 00000000 0 0 43 1",
    ]
    (tmp_path / "net/tcp").write_text("\n".join([HEADER, *rows]) + "\n")
    for pid, inode, command in (("7", 43, "client"), ("12", 42, "other-server")):
        (tmp_path / pid / "fd").mkdir(parents=True)
        (tmp_path / pid / "fd/3").symlink_to(f"socket:[{inode}]")
        (tmp_path / pid / "comm").write_text(f"{command}\n")
    return tmp_path


def test_the_listener_is_named_not_its_clients(proc: Path) -> None:
    assert port_owner(8790, proc) == "other-server (pid 12)"


def test_nobody_is_named_for_a_free_port_or_without_the_tables(proc: Path, tmp_path: Path) -> None:
    assert port_owner(8791, proc) is None
    assert port_owner(8790, tmp_path / "none") is None


def test_a_process_that_may_not_be_looked_at_is_passed_over(proc: Path) -> None:
    (proc / "12/fd/3").unlink()
    (proc / "12/fd").rmdir()

    assert port_owner(8790, proc) is None


def test_this_very_process_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        holder = port_owner(held.getsockname()[1])

    assert holder is not None
    assert holder.endswith(f"(pid {os.getpid()})")
