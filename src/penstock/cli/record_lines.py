"""Records as readable lines; programs read JSON."""

from penstock.cli.instants import day_and_time
from penstock.market.events import Event


def record_line(event: Event, at_ns: int) -> str:
    """One line with the time, the market and the content of an event."""
    when = f"{day_and_time(at_ns // 1_000_000_000)}.{at_ns // 1_000_000 % 1000:03}"
    return f"{when}  {event.exchange} {event.symbol}  {event.summary}"
