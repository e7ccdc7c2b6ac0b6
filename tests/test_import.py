"""Importing penstock does no work: no network, no file, no thread, no heavy library."""

import subprocess
import sys

import pytest

import penstock

PROBE = """
import sys, threading

seen, watching = [], True
sys.addaudithook(lambda event, args: seen.append((event, str(args))) if watching else None)
known = set(sys.modules)
import penstock
watching = False

sockets = [line for line in seen if line[0].startswith("socket.")]
files = [line for line in seen if line[0] == "open" and ".py" not in line[1]]
new = {name.partition(".")[0] for name in set(sys.modules) - known}
assert not sockets, sockets
assert not files, files
assert threading.active_count() == 1
assert new == {"penstock"}, new
"""


def test_importing_the_package_opens_nothing_and_starts_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_what_the_package_offers_is_found_when_asked_for() -> None:
    assert penstock.subscribe.__module__ == "penstock.app.bus"
    assert penstock.open_budget.__module__ == "penstock.app.budget"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        penstock.nothing  # type: ignore[attr-defined]  # noqa: B018
