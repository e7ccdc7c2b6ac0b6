"""Processes are built in one order: storage, then the bus, then the clients of exchanges."""

import re
from pathlib import Path

import pytest

import penstock.app

FOLDER = Path(penstock.app.__file__).parent
ORDER = {
    "process": r"with RecordingProcess\(",
    "storage": r"process\.(?:own_free|take)_slot\(",
    "bus": r"process\.open_recorder\(",
    "clients": r"FleetGateways\(|open_gateways\(process",
}


@pytest.mark.parametrize("name", ["collector.py", "worker.py"])
def test_a_recording_process_is_built_in_order(name: str) -> None:
    text = (FOLDER / name).read_text()
    found = [re.search(pattern, text) for pattern in ORDER.values()]

    assert all(found), ORDER
    at = [match.start() for match in found if match]
    assert at == sorted(at), "docs/architecture.md: the order in which a process is built"


def test_no_part_below_the_command_line_reads_the_environment_or_the_settings_file() -> None:
    for path in FOLDER.parent.rglob("*.py"):
        part = path.relative_to(FOLDER.parent).parts[0]
        if part not in ("cli", "config"):
            text = path.read_text()
            assert "config import load" not in text, path
            assert not re.search(r"\bload\(Settings", text), path
