"""What must survive a power cut is on the disk before it is acknowledged: seen in system calls."""

import os
import sys
from pathlib import Path

import pytest
from tests import tracing

WRITER = """
import os, sys
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import open_log

def trade(number):
    return Trade(exchange="sim", symbol=Symbol("BTC", "USDT"), received_at_ns=number, id=number,
                 at_ns=5, price_text="1", quantity_text="1", taker="buy")

writer = open_log(f"rocksdb:{sys.argv[1]}").writer("a")
writer.append([trade(1)])
os.write(2, b"ACK flushed")
for number in (2, 3):
    writer.append([trade(number)], "synced")
    os.write(2, b"ACK synced")
    writer.append([trade(number + 10)])
    writer.sync()
    os.write(2, b"ACK sync")
writer.close()
"""


@pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not())
def test_a_record_is_synced_before_it_is_acknowledged_as_such(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WRITER, str(tmp_path / "data")]
    calls = tracing.watched(tmp_path / "trace", words, dict(os.environ))

    opened: dict[int, str] = {}
    syncs = 0
    found: list[tuple[str, bool]] = []
    for call in calls:
        if call.name == "openat":
            opened[call.result] = tracing.texts(call)[0].decode()
        elif call.name in ("fsync", "fdatasync"):
            # RocksDB's log of what is not yet in tables: 000004.log
            syncs += opened[tracing.descriptor(call)].endswith(".log")
        elif call.name == "write" and tracing.descriptor(call) == 2:
            for text in tracing.texts(call):
                if text.startswith(b"ACK "):
                    found.append((text.decode().removeprefix("ACK "), syncs > 0))
                    syncs = 0
    assert [name for name, _ in found] == ["flushed", *["synced", "sync"] * 2]
    assert all(is_synced for name, is_synced in found if name != "flushed"), found
