"""The README's examples, run as printed but for the ports."""

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

README = Path(__file__).parent.parent / "README.md"


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the examples are curl's")
def test_the_examples_run_as_printed(tmp_path: Path) -> None:
    script = "\n".join(f"{command}\necho" for command in commands())
    for port in ("8780", "8790"):
        script = script.replace(port, free_port())
    (tmp_path / ".venv").symlink_to(sys.prefix)
    with subprocess.Popen(
        ["bash", "-m", "-e", "-c", script],
        cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as shell:  # fmt: skip
        try:
            out, errors = shell.communicate(timeout=120)
        finally:
            kill_all(shell.pid)

    assert shell.returncode == 0, errors[-3000:]
    answers = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    time, ready, connector, job, page = answers
    assert time["serverTime"] > 0
    assert ready == {"status": "ready"}
    assert connector["exchange_id"] == "binance"
    assert (job["type"], job["symbol"]) == ("ohlcv_backfill", "BTC/USDT")
    assert {one["id"] for one in page["items"]} <= {job["id"]}


def kill_all(session: int) -> None:
    """End whatever the examples began and did not end."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if os.getsid(int(process.name)) == session:
                    os.kill(int(process.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
