"""Ten viewers watch a market for half an hour: neither the server nor a browser grows.

``make soak`` runs it; ``CONSOLE_SECONDS=300`` is the shortest time in which a browser is measured.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = os.environ.get("PENSTOCK_TEST_CONSOLE_SECONDS") or "1800"


@pytest.mark.long
def test_viewers_for_half_an_hour() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bench", "console", "--json"],
        cwd=ROOT, env={**os.environ, "SECONDS": SECONDS}, text=True,
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found = json.loads(run.stdout.splitlines()[-1])
    print(found)

    assert found["page_kb"] <= 400
    assert found["outside_requests"] == 0
    assert found["frames_per_viewer_min"] >= 9
    assert found["server_core_share"] <= 0.10
    assert found["server_rss_growth"] <= 0.10
    assert found["browser_heap_growth"] <= 0.10
