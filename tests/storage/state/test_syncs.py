"""What SQLite acknowledged is on the disk before: seen in the system calls, not in its settings."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

WRITER = """
import asyncio, os, sys
from penstock.storage.state import Write, open_store
from penstock.storage.state.schema import COUNTERS

async def main():
    store = await open_store(f"sqlite:{sys.argv[1]}")
    os.write(2, b"ACK opened")
    for number in range(3):
        await store.insert_if_absent(COUNTERS, {"id": f"x{number}", "exchange_id": f"x{number}"})
        os.write(2, b"ACK inserted")
        await store.write(COUNTERS, [Write(f"x{number}", {}, {"cost": number})])
        os.write(2, b"ACK written")
    await store.close()

asyncio.run(main())
"""


@pytest.fixture
def strace() -> str:
    found = shutil.which("strace")
    if not found or subprocess.run([found, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let system calls be watched")
    return found


def test_a_document_is_synced_before_it_is_acknowledged(strace: str, tmp_path: Path) -> None:
    calls, file = tmp_path / "calls", tmp_path / "state.db"
    watched = [strace, "-f", "-qq", "-y", "-e", "trace=fsync,fdatasync,write", "-o", str(calls)]
    subprocess.run(
        [*watched, sys.executable, "-c", WRITER, str(file)],
        check=True, capture_output=True, timeout=2 * PATIENCE_S,
    )  # fmt: skip

    synced = re.compile(r"f(?:data)?sync\(\d+<[^>]*state\.db-wal>")
    before: dict[str, list[int]] = {}
    since = 0
    for line in calls.read_text().splitlines():
        since += bool(synced.search(line))
        if acknowledged := re.search(r"ACK (\w+)", line):
            before.setdefault(acknowledged[1], []).append(since)
            since = 0
    assert len(before["inserted"]) == len(before["written"]) == 3, "the writer was not watched"
    assert all(times > 0 for name in ("inserted", "written") for times in before[name]), before
