"""The README's examples and those of the docs: run as printed but for the ports.

All of a page in one shell, from the top. What a page tells to put in ``penstock.toml`` is there.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PATIENCE_S = 120.0
PORTS = ("8780", "8790")

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")


def commands(text: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if commands(page.read_text())]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run(page: Path, folder: Path) -> str:
    """What the examples of a page print, in a fresh home that is also where they run."""
    text = page.read_text()
    # The folders whose commands are on the path are as in a checkout.
    (folder / ".venv").symlink_to(sys.prefix)
    plan = re.search(r"^```toml\n(.*?)^```", text, re.M | re.S)
    if plan and "penstock.toml" in "".join(commands(text)):
        (folder / "penstock.toml").write_text(plan[1])
    script = "\n".join(f"{command}\necho" for command in commands(text))
    for port in PORTS:
        script = script.replace(port, free_port())
    environment = {
        **os.environ,
        "HOME": str(folder),
        "NO_COLOR": "1",
        "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
    }
    out, errors = folder / "out.txt", folder / "errors.txt"
    with (
        out.open("w") as to_out,
        errors.open("w") as to_errors,
        subprocess.Popen(
            ["bash", "-m", "-e", "-c", script],
            cwd=folder, env=environment, start_new_session=True, stdout=to_out, stderr=to_errors,
        ) as shell,
    ):  # fmt: skip
        try:
            shell.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{out.read_text()[-3000:]}\n{errors.read_text()[-3000:]}")
        finally:
            kill_all(shell.pid)
    assert shell.returncode == 0, f"{out.read_text()[-3000:]}\n{errors.read_text()[-3000:]}"
    assert "Traceback" not in errors.read_text()
    return out.read_text()


def kill_all(session: int) -> None:
    """End whatever the examples began and did not end."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if os.getsid(int(process.name)) == session:
                    os.kill(int(process.name), signal.SIGKILL)
            except ProcessLookupError:
                continue


def test_the_readme_runs_as_printed(tmp_path: Path) -> None:
    out = run(ROOT / "README.md", tmp_path)

    answers = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    time, first, second, ready, connector, job, done, *candles = answers
    assert time["serverTime"] > 0
    assert "Nothing is known to be missing in 2 markets." in out
    assert (first["kind"], second["id"]) == ("trade", first["id"] + 1)
    tail = re.findall(r"^[-\d]{10} [:.\d]{12}  binance BTC/USDT  trade \d+: ", out, re.M)
    assert len(tail) == 3
    assert ready == {"status": "ready"}
    assert connector["exchange_id"] == "binance"
    assert (job["type"], job["symbol"]) == ("ohlcv_incremental", "BTC/USDT")
    assert [one["type"] for one in done["items"]] == ["ohlcv_backfill"]
    assert [candle["open_ms"] for candle in candles] == [
        1735689600000 + hour * 3_600_000 for hour in range(3)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_of_the_docs_runs_as_printed(page: Path, tmp_path: Path) -> None:
    assert run(page, tmp_path)
