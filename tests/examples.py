"""The examples of a page: run as printed but for the ports, all in one shell, from the top.

What a page tells to put in ``penstock.toml``, or to save under another name, is there.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.forked import python
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parent.parent
PORTS = ("8780", "8790")


def commands(text: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run(
    page: Path, folder: Path, servers: Mapping[str, str] | None = None, *, forked: bool = True
) -> str:
    """What the examples of a page print, in a fresh home that is also where they run.

    ``servers`` are the addresses to use instead of those that are printed. Unless commands are
    forked (see ``example_shell.py``), they are those of the folder's ``.venv``.
    """
    text = page.read_text()
    # The folders whose commands are on the path are as in a checkout.
    (folder / ".venv").symlink_to(sys.prefix)
    plan = re.search(r"^```toml\n(.*?)^```", text, re.M | re.S)
    if plan and "penstock.toml" in "".join(commands(text)):
        (folder / "penstock.toml").write_text(plan[1])
    for name, content in re.findall(
        r"save it as `([\w.]+)`:\n\n```\w+\n(.*?)^```", text, re.M | re.S
    ):
        (folder / name).write_text(content)
    script = "\n".join(f"{command}\necho" for command in commands(text))
    for port in PORTS:
        script = script.replace(port, free_port())
    for printed, used in (servers or {}).items():
        assert printed in script, f"{page.name} does not name {printed}"
        script = script.replace(printed, f"'{used}'")
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
        _shell(
            script, forked=forked,
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


def _shell(script: str, *, forked: bool, **options: Any) -> subprocess.Popen[str]:
    if forked and sys.platform == "linux":
        return python(str(Path(__file__).with_name("example_shell.py")), script, **options)
    return subprocess.Popen(["bash", "-m", "-e", "-c", script], text=True, **options)


def kill_all(session: int) -> None:
    """End whatever the examples began and did not end."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if os.getsid(int(process.name)) == session:
                    os.kill(int(process.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
