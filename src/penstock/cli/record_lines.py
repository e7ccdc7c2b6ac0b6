"""Records as readable lines; programs read JSON."""

from decimal import Decimal

from penstock.cli.instants import day_and_time
from penstock.market.events import (
    AggTrade,
    AnyEvent,
    BookDelta,
    BookSnapshot,
    Candle,
    Disconnect,
    Ticker,
    Trade,
)
from penstock.market.levels import Level

_MOST_ZEROS = 40


def record_line(event: AnyEvent, at_ns: int) -> str:
    """One line with the time, the market and the content of an event."""
    when = f"{day_and_time(at_ns // 1_000_000_000)}.{at_ns // 1_000_000 % 1000:03}"
    return f"{when}  {event.exchange} {event.symbol}  {_what(event)}"


def _what(event: AnyEvent) -> str:
    match event:
        case Trade() | AggTrade():
            word = "trade" if isinstance(event, Trade) else "aggregate trade"
            return f"{word} {event.id}: {event.taker} {event.quantity_text} at {event.price_text}"
        case BookDelta():
            return f"book: {len(event.bids)} bids and {len(event.asks)} asks changed"
        case BookSnapshot():
            best = f"bid {_best(event.bids)}, ask {_best(event.asks)}"
            return f"book of {len(event.bids)} bids and {len(event.asks)} asks: {best}"
        case Ticker():
            told = (("bid", event.bid_text), ("ask", event.ask_text), ("last", event.last_text))
            return "ticker: " + ", ".join(f"{name} {text}" for name, text in told if text)
        case Candle():
            prices = f"{event.open_text} {event.high_text} {event.low_text} {event.close_text}"
            return f"candle {event.interval}: {prices}, volume {event.volume_text}"
        case Disconnect():
            return f"connection of {', '.join(event.channels)} lost: {event.reason}"


def _best(side: list[Level]) -> str:
    return f"{_plain(side[0][1])} at {_plain(side[0][0])}" if side else "none"


def _plain(value: Decimal) -> str:
    """A number without an exponent, unless it would be mostly zeros."""
    return f"{value:f}" if -_MOST_ZEROS < value.adjusted() < _MOST_ZEROS else str(value)
