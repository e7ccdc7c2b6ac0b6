"""Events whose last ones are kept on both paths, which must agree."""

from random import Random

from tests import events

from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.streaming.latest_events import LatestInPython, latest_events

_SYMBOLS = [Symbol(f"L{number}", "USDT") for number in range(90)]


def _some(chance: Random) -> list[Event]:
    symbols = _SYMBOLS[: chance.choice((1, 5, 90))]
    return [
        chance.choice((events.trade, events.ticker))(number, chance.choice(symbols))
        for number in range(chance.choice((0, 1, 5, 200)))
    ]


def run(seed: int, steps: int) -> int:
    """Compare for so many steps; return the number of events. Raises AssertionError."""
    chance, in_python, in_c, count = Random(seed), LatestInPython(), latest_events(), 0
    for _ in range(steps):
        noted = _some(chance)
        count += len(noted)
        for each in (in_python, in_c):
            each.note(noted)
        if chance.random() < 0.3:
            assert list(map(id, in_c.take())) == list(map(id, in_python.take()))
    return count
