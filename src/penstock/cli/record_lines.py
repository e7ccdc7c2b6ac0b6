"""Records as readable lines; programs read JSON."""

from penstock.cli.instants import day_and_time
from penstock.market.events import Event


def record_line(event: Event, at_ns: int) -> str:
    """One line with the time, the market and the content of an event."""
    return f"{record_time(at_ns)}  {event.exchange} {event.symbol}  {event.summary}"


def record_time(at_ns: int) -> str:
    """A time to the millisecond."""
    return f"{day_and_time(at_ns // 1_000_000_000)}.{at_ns // 1_000_000 % 1000:03}"
