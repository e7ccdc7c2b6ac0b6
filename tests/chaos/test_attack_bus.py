"""A bus that is attacked for a minute stays alive, bounded and right, and ends when it is told to.

PENSTOCK_TEST_SECONDS and PENSTOCK_TEST_SEED make it longer, and another attack: ``make chaos-bus``.
"""

import os
from pathlib import Path

from tests.security.attacked_bus import attacked, check, report

SECONDS = float(os.environ.get("PENSTOCK_TEST_SECONDS") or 60)
FLOOD_SECONDS = float(os.environ.get("PENSTOCK_TEST_SECONDS") or 10)
# ZeroMQ walks through all subscriptions whenever a connection ends, in the broker's own thread:
# while it does so, connections that come and go pile up.
MOST_BYTES_IN_FLOOD = 1_000_000_000
SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or 1)


async def test_a_bus_comes_through_an_attack(tmp_path: Path) -> None:
    outcome = await attacked(tmp_path, SECONDS, SEED)

    print(f"\nattacked for {SECONDS:g} s: {report(outcome)}")
    check(outcome)


async def test_a_bus_comes_through_a_flood_of_subscriptions(tmp_path: Path) -> None:
    outcome = await attacked(tmp_path, FLOOD_SECONDS, SEED, flood=True)

    print(f"\nflooded for {FLOOD_SECONDS:g} s: {report(outcome)}")
    check(outcome, MOST_BYTES_IN_FLOOD)
