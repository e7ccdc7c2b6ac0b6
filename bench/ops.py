"""What operating penstock costs: a backup of a large store, statistics, a scrape, supervision.

The store has a log and a lake of 5 GB that cannot be compressed further, as most files of a real
one. The backup is that of the command line: a process of its own, at its own low priority.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from bench._monitoring import measure_monitoring
from bench._process import peak_rss_mb
from bench._sides import our_python
from bench._supervising import measure_supervision
from deltalake import write_deltalake

from penstock.storage.log import open_log

STORE_BYTES = 5_000_000_000
FILES = 20


def make_store(folder: Path) -> None:
    """A log with a slot, and a lake with files that cannot be compressed further."""
    writer = open_log(f"rocksdb:{folder}").writer("collect-bench")
    writer.close()
    size = STORE_BYTES // FILES
    for _ in range(FILES):
        noise = pa.array([os.urandom(1 << 20) for _ in range(size >> 20)], pa.binary())
        table = pa.table({"exchange": ["bench"] * len(noise), "noise": noise})
        write_deltalake(
            folder / "lake" / "trades",
            table,
            mode="append",
            partition_by=["exchange"],
        )


def measure_backup(folder: Path) -> dict[str, object]:
    """One backup without a rehearsal: bytes a second, and the most memory that it held."""
    words = ["backup", "run", "--no-rehearse", "--json", "--data-dir", str(folder)]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-backup-", dir=folder.parent) as backups:
        process = subprocess.Popen(
            [our_python(), "-m", "penstock", *words, "--folder", backups],
            stdout=subprocess.PIPE,
            text=True,
        )
        # Of the kernel's figures at the end, the memory would be that of this process before exec.
        peak = 0.0
        while process.poll() is None:
            with suppress(FileNotFoundError, ValueError):
                peak = max(peak, peak_rss_mb(process.pid))
            time.sleep(0.05)
        seconds = time.monotonic() - began
        assert process.stdout is not None
        line = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"the backup ended with exit code {process.returncode}")
    made = json.loads(line)
    return {
        "backup_mb_per_s": round(made["content_bytes"] / 1e6 / seconds, 1),
        "backup_rss_mb": peak,
        "backup_store_mb": round(made["content_bytes"] / 1e6),
        "backup_seconds": round(seconds, 1),
    }


def main() -> Mapping[str, object]:
    """Make the store, and measure."""
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-ops-") as folder:
        print(f"   making a store of {STORE_BYTES / 1e9:g} GB", flush=True)
        make_store(Path(folder) / "data")
        figures |= measure_backup(Path(folder) / "data")
    return {**figures, **measure_monitoring(), **measure_supervision()}
