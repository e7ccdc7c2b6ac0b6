"""A toy exchange to shard: what it sent is known, so that what was made of it can be judged."""

from collections.abc import Hashable, Mapping, Sequence

import msgspec
from msgspec import Raw

from penstock.books.rules import BookRules
from penstock.market.channels import DedupeKey
from penstock.market.events import BookDelta, BookSnapshot, Event, Ticker, Trade
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import (
    Ack,
    Malformed,
    Notice,
    Received,
    Refusal,
    StreamLimits,
)

A, B = Symbol("A", "USDT"), Symbol("B", "USDT")
SECOND_NS = 1_000_000_000


def frame(*words: object) -> bytes:
    return msgspec.json.encode(words)


def truth(update_id: int) -> dict[str, str]:
    """A book of which every update sets one level."""
    return {str(n % 7 + 1): str(n) for n in range(max(1, update_id - 6), update_id + 1)}


def rest_book(symbol: Symbol, update_id: int) -> BookSnapshot:
    return BookSnapshot(
        exchange="toy", symbol=symbol, received_at_ns=0, update_id=update_id, source="rest",
        bids_raw=write_levels(truth(update_id).items()), asks_raw=Raw(b"[]"),
    )  # fmt: skip


class NumberedDialect:
    """Frames are JSON arrays whose first word says what they are. Books are begun by REST."""

    limits = StreamLimits(
        streams_per_connection=10, names_per_message=10, messages_per_second=5,
        connects=300, connects_period_s=300.0, lifetime_s=None, heartbeat_s=20.0,
    )  # fmt: skip
    books = BookRules()
    channels: Sequence[str] = ("trades", "book_deltas", "tickers")

    def url(self, base: str) -> str:
        return base

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        return [f"{symbol.slug}@{channel}" for symbol in symbols]

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        return f"{request_id}:{','.join(names)}"

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        return f"{request_id}:-{','.join(names)}"

    def read(self, raw: bytes | str, received_at_ns: int) -> list[Received]:
        try:
            words = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return [Malformed("not_json", "what is this", str(raw))]
        match words:
            case ["ack", int(number)]:
                return [Ack(number)]
            case ["refused", int(number)]:
                return [Refusal(number, 2, "no such stream")]
            case ["closing"]:
                return [Notice("closing", None)]
        return [self.event(words, received_at_ns)]

    def event(self, words: list[object], at_ns: int) -> Event | Malformed:
        match words:
            case ["trade", str(slug), int(number)]:
                return Trade(
                    exchange="toy", symbol=Symbol.parse(slug), received_at_ns=at_ns, id=number,
                    at_ns=0, price_text="1", quantity_text="1", taker="buy",
                )  # fmt: skip
            case ["delta", str(slug), int(number)]:
                level = [(str(number % 7 + 1), str(number))]
                return BookDelta(
                    exchange="toy", symbol=Symbol.parse(slug), received_at_ns=at_ns, at_ns=number,
                    first_update_id=number, final_update_id=number,
                    bids_raw=write_levels(level), asks_raw=Raw(b"[]"),
                )  # fmt: skip
            case ["ticker", str(slug), str(price)]:
                return Ticker(
                    exchange="toy", symbol=Symbol.parse(slug), received_at_ns=at_ns, bid_text=price
                )
        return Malformed("unknown_message", "what is this", str(words))


class StreamedDialect(NumberedDialect):
    """Its books come in their streams, whole first, and have no numbers."""

    books = BookRules(begins="stream")

    def event(self, words: list[object], at_ns: int) -> Event | Malformed:
        match words:
            case ["whole", str(slug), int(number)]:
                return BookSnapshot(
                    exchange="toy", symbol=Symbol.parse(slug), received_at_ns=at_ns, at_ns=number,
                    bids_raw=write_levels(truth(number).items()), asks_raw=Raw(b"[]"),
                )  # fmt: skip
            case ["delta", str(slug), int(number)]:
                level = [(str(number % 7 + 1), str(number))]
                return BookDelta(
                    exchange="toy", symbol=Symbol.parse(slug), received_at_ns=at_ns, at_ns=number,
                    bids_raw=write_levels(level), asks_raw=Raw(b"[]"),
                )  # fmt: skip
        return super().event(words, at_ns)


def _bid(ticker: Ticker) -> Hashable:
    return ticker.bid_text


class StampingDialect(NumberedDialect):
    """It knows that two tickers alike are one."""

    dedupe_keys: Mapping[type[Event], DedupeKey] = {Ticker: _bid}
