"""A subscriber that is stopped for a while under load ends with every number, once and in order.

PENSTOCK_TEST_STOP_S and PENSTOCK_TEST_RATE make it longer and harder: ``make chaos-bus``.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE_S

STOP_S = float(os.environ.get("PENSTOCK_TEST_STOP_S", "4"))
RATE = int(os.environ.get("PENSTOCK_TEST_RATE", "2500"))
# A short queue, of the bus and the subscriber, makes sure that a short stop is too long for it.
QUEUE = {} if STOP_S >= 30 else {"PENSTOCK_BUS_QUEUE": "100"}
BEFORE_S, AFTER_S = 1.0, 2.0
TOPIC = "toy.trades.btc_usdt"


@contextmanager
def running(folder: Path, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """A process of its own, with its output in a pipe; killed if it does not end."""
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder, env={**os.environ, **QUEUE}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def test_a_stopped_subscriber_ends_with_every_number(tmp_path: Path) -> None:
    seconds = BEFORE_S + STOP_S + AFTER_S
    data, got = tmp_path / "penstock-data", tmp_path / "got"
    producer = (str(Path(__file__).with_name("publisher.py")), str(data), str(RATE), str(seconds))
    with (
        running(tmp_path, "-m", "penstock", "bus", "--json") as bus,
        got.open("w") as file,
    ):
        assert bus.stdout is not None
        bus.stdout.readline()
        tail = subprocess.Popen(
            [sys.executable, "-m", "penstock", "tail", TOPIC, "--json", "--start", "1"],
            cwd=tmp_path, env={**os.environ, **QUEUE}, stdout=file,
        )  # fmt: skip
        try:
            with running(tmp_path, *producer) as publishing:
                assert publishing.stdout is not None
                assert publishing.stdout.readline() == "publishing\n"
                time.sleep(BEFORE_S)
                tail.send_signal(signal.SIGSTOP)
                time.sleep(STOP_S)
                tail.send_signal(signal.SIGCONT)
                told = json.loads(publishing.stdout.readline())
            wait_for_number(got, told["recorded"])
        finally:
            tail.send_signal(signal.SIGCONT)
            tail.terminate()
            assert tail.wait(20) == 0
        bus.send_signal(signal.SIGTERM)
        counts = json.loads(bus.communicate(timeout=PATIENCE_S)[0])

    lines = [json.loads(line) for line in got.read_text().splitlines()]
    assert [line.get("number", line) for line in lines] == [*range(1, told["recorded"] + 1)]
    filled = sum(line["filled"] for line in lines)
    print(
        f"\n{told['recorded']} recorded at {RATE}/s, stopped for {STOP_S:g} s: {filled} read from"
        f" the log, {len(lines) - filled} came by the bus; {told['dropped']} dropped by the"
        f" publisher, {counts['overflows']} times a queue was full"
    )
    assert told["recorded"] >= 0.9 * RATE * seconds, "the load was as heavy as it is said to be"
    assert filled > RATE * STOP_S / 4, "the stop was too long for the queues"
    assert told["dropped"] == 0, "a slow subscriber is none of the publisher's business"
    assert told["published"] == told["recorded"]


def wait_for_number(got: Path, number: int) -> None:
    """Wait until the last line that was printed holds a number."""
    deadline = time.monotonic() + PATIENCE_S
    while f'"number":{number},' not in got.read_text()[-1000:]:
        assert time.monotonic() < deadline, f"{number} never came: {got.read_text()[-300:]}"
        time.sleep(0.2)
