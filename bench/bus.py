"""What a message costs its publisher, with one subscriber on the bus and with a hundred.

CPU time of the publisher's process, its network thread included, at a thousand messages a second.
A hundred busy subscribers make everything on a small machine a little dearer, even what has nothing
to do with them. So there are two buses at once: one has the hundred, the other one, and they change
places every turn. What else the machine does then hits both alike.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from math import sqrt

from bench._sides import Side, our_python, running

TURNS = 12
TURN_S = 3.0
CROWDS, EACH = 4, 25
SETTLE_S = 0.5
PATIENCE_S = 20.0
OURS = "bench.ours.bus"


class Place:
    """One bus, its publisher, and as many subscribers as it is told to have."""

    def __init__(self, stack: ExitStack) -> None:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        words = [sys.executable, "-m", "penstock", "bus", "--json", "--data-dir", folder]
        broker = stack.enter_context(
            subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(broker.terminate)
        assert broker.stdout is not None
        broker.stdout.readline()
        self.publisher = _start(stack, "publisher", folder)
        self.crowds = [_start(stack, "crowd", folder) for _ in range(CROWDS)]

    def join(self, many: bool) -> int:
        """Have a hundred subscribers, or one; how many it has."""
        for index, crowd in enumerate(self.crowds):
            crowd.ask(f"join {EACH if many else int(index == 0)}")
        return CROWDS * EACH if many else 1

    def leave(self) -> None:
        for crowd in self.crowds:
            crowd.ask("leave")

    def publish(self, subscribers: int) -> float:
        """Microseconds of CPU for one message; all subscribers must have got all messages."""
        before = self._received()
        taken = self.publisher.ask(str(TURN_S))
        assert not taken["dropped"], "the broker did not keep up, so this says nothing"
        # What tells the last number every second is among what they get: a few more are right.
        expected = round(TURN_S * 1000) * subscribers
        deadline = time.monotonic() + PATIENCE_S
        while (found := self._received() - before) < expected:
            assert time.monotonic() < deadline, f"{found} of {expected} were received"
            time.sleep(0.1)
        return float(taken["cpu_us"])

    def _received(self) -> int:
        return sum(int(crowd.ask("count")["received"]) for crowd in self.crowds)


def _start(stack: ExitStack, part: str, folder: str) -> Side:
    return stack.enter_context(running(part, our_python(), OURS, part, folder))


def measure(places: Sequence[Place], turn: int) -> tuple[float, float]:
    """Microseconds of CPU for one message: with one subscriber, and with a hundred."""
    crowded = turn % 2
    subscribers = [place.join(index == crowded) for index, place in enumerate(places)]
    time.sleep(SETTLE_S)
    with ThreadPoolExecutor(len(places)) as both:
        taken = list(both.map(Place.publish, places, subscribers))
    for place in places:
        place.leave()
    time.sleep(SETTLE_S)
    return taken[1 - crowded], taken[crowded]


def main() -> Mapping[str, object]:
    with ExitStack() as stack:
        places = [Place(stack) for _ in range(2)]
        for place in places:
            place.publisher.ask("1.0")  # the first second makes connections and caches
        turns = []
        for turn in range(TURNS):
            turns.append(measure(places, turn))
            few, many = turns[-1]
            print(f"   1: {few:.1f} µs a message, 100: {many:.1f} µs", flush=True)
    ratios = [many / few for few, many in turns]
    # Of two turns, in which the places are changed, what distinguishes the places falls out.
    pairs = [sqrt(one * two) for one, two in zip(ratios[::2], ratios[1::2], strict=True)]
    return {
        "cpu_us_1_subscriber": round(statistics.median(few for few, _ in turns), 2),
        "cpu_us_100_subscribers": round(statistics.median(many for _, many in turns), 2),
        "spread": [round(min(pairs), 3), round(max(pairs), 3)],
        "ratios": {"producer_cpu_100_subscribers": round(statistics.median(pairs), 3)},
    }
