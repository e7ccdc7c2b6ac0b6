"""Events in an exchange's own format: the dialect reads the same events from them again."""

from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests import events

from penstock.exchanges import registry
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.market.events import AggTrade, Event, Ticker24h
from penstock.playback.native import names, native_exchange

BTC = events.BTC
AT_NS = 1_700_000_000_123_000_000
FINER_NS = AT_NS + 456_000
BIDS, ASKS = Raw(b'[["1.10","5.00"],["1.05","2"]]'), Raw(b'[["1.20","0.10000000"]]')
NUMBERS: dict[str, Any] = {"price_text": "1.10", "quantity_text": "0.00500000"}
MARKETS = {
    "binance": ListedMarket("BTCUSDT", BTC),
    "kraken": ListedMarket("XBTUSDT", BTC, "BTC/USDT"),
    "coinbase": ListedMarket("BTC-USDT", BTC),
    "upbit": ListedMarket("USDT-BTC", BTC),
}
TICKER: dict[str, Any] = {
    "bid_text": "1.10", "bid_quantity_text": "5.00", "ask_text": "1.20", "ask_quantity_text": "0.1",
    "last_text": "1.15", "high_text": "1.30", "low_text": "1.00", "volume_text": "1234.5",
}  # fmt: skip
CANDLE: dict[str, Any] = {
    "open_text": "1.1", "high_text": "1.3", "low_text": "1.0", "close_text": "1.2",
    "volume_text": "12.5", "trades": 7,
}  # fmt: skip


def on(exchange: str, at_ns: int, sides: tuple[str, ...] = ("buy", "sell")) -> list[Event]:
    return [
        events.trade(n, exchange=exchange, at_ns=at_ns, taker=taker, **NUMBERS)
        for n, taker in enumerate(sides, 1)
    ]


# (exchange, the dialect's channel, the stream's name in the simulated exchange, events)
CASES: list[tuple[str, str, str, list[Event]]] = [
    ("binance", "trades", "btcusdt@trade", on("binance", AT_NS)),
    (
        "binance", "agg_trades", "btcusdt@aggTrade",
        [AggTrade(exchange="binance", symbol=BTC, received_at_ns=0, id=3, first_trade_id=4,
                  last_trade_id=6, at_ns=AT_NS, taker="sell", **NUMBERS)],
    ),
    (
        "binance", "book_deltas", "btcusdt@depth@100ms",
        [events.delta(5, 8, exchange="binance", at_ns=AT_NS, bids_raw=BIDS, asks_raw=ASKS)],
    ),
    (
        "binance", "book_snapshots", "btcusdt@depth20@100ms",
        [events.snapshot(9, exchange="binance", bids_raw=BIDS, asks_raw=ASKS)],
    ),
    (
        "binance", "tickers", "btcusdt@bookTicker",
        [events.ticker(0, exchange="binance", update_id=7, bid_text="1.10",
                       bid_quantity_text="5.00", ask_text="1.20", ask_quantity_text="0.1")],
    ),
    (
        "binance", "tickers_24h", "btcusdt@ticker",
        [Ticker24h(exchange="binance", symbol=BTC, received_at_ns=0, at_ns=AT_NS,
                   open_text="1.05", quote_volume_text="99.5", **TICKER)],
    ),
    (
        "binance", "candles_1m", "btcusdt@kline_1m",
        [events.candle(60_000, exchange="binance", quote_volume_text="15.5", first_trade_id=3,
                       last_trade_id=9, taker_buy_volume_text="6.0",
                       taker_buy_quote_volume_text="7.5", **CANDLE)],
    ),
    ("kraken", "trades", "trade/BTC/USDT+snapshot", on("kraken", FINER_NS)),
    (
        "kraken", "book_deltas", "book-10/BTC/USDT+snapshot",
        [
            events.snapshot(0, exchange="kraken", bids_raw=BIDS, asks_raw=ASKS, checksum=3),
            events.delta(None, None, exchange="kraken", at_ns=FINER_NS + 1, bids_raw=BIDS,
                         asks_raw=events.NOTHING, checksum=4),
        ],
    ),
    (
        "kraken", "tickers", "ticker-bbo/BTC/USDT+snapshot",
        [events.ticker(0, exchange="kraken", at_ns=FINER_NS, **TICKER)],
    ),
    ("coinbase", "trades", "matches:BTC-USDT", on("coinbase", FINER_NS)),
    (
        "coinbase", "book_deltas", "level2_batch:BTC-USDT",
        [
            events.snapshot(0, exchange="coinbase", at_ns=FINER_NS, bids_raw=BIDS, asks_raw=ASKS),
            events.delta(None, None, exchange="coinbase", at_ns=FINER_NS, bids_raw=BIDS,
                         asks_raw=ASKS),
        ],
    ),
    (
        "coinbase", "tickers", "ticker:BTC-USDT",
        [events.ticker(0, exchange="coinbase", at_ns=FINER_NS, update_id=12, open_text="1.05",
                       **TICKER)],
    ),
    ("upbit", "trades", "trade:USDT-BTC:SIMPLE", on("upbit", AT_NS)),
    (
        "upbit", "book_deltas", "orderbook:USDT-BTC:SIMPLE",
        [events.snapshot(0, exchange="upbit", at_ns=AT_NS, bids_raw=BIDS, asks_raw=ASKS)],
    ),
    (
        "upbit", "tickers", "ticker:USDT-BTC:SIMPLE",
        [events.ticker(0, exchange="upbit", at_ns=AT_NS, last_text="1.15", volume_text="12.5",
                       quote_volume_text="14.375")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("exchange", "channel", "stream", "made"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES]
)
def test_the_dialect_reads_the_event_again(
    exchange: str, channel: str, stream: str, made: list[Event]
) -> None:
    native = native_exchange(exchange, [BTC])
    dialect = registry.load(exchange).dialect(SymbolMap(exchange, [MARKETS[exchange]]))
    names = dialect.streams(channel, [BTC])
    dialect.subscribe(names, 1)
    wanted = native.wanted(stream)

    found: list[Any] = []
    for event in made:
        for frame in native.frames(event, stream):
            if exchange == "binance":
                frame = b'{"stream":"%b","data":%b}' % (names[0].encode(), frame)  # noqa: PLW2901
            found += dialect.read(frame, event.received_at_ns)

    assert wanted is not None
    assert wanted.symbol is BTC
    assert [each for each in found if isinstance(each, Event)] == [
        replace(event, source="live") for event in made
    ]


@pytest.mark.parametrize("exchange", names())
def test_what_was_not_recorded_has_no_stream(exchange: str) -> None:
    native = native_exchange(exchange, [BTC])

    for stream in (
        "nonsense",
        "",
        "ethusdt@trade",
        "trade/ETH/USDT",
        "matches:ETH-USDT",
        "trade:X",
    ):
        assert native.wanted(stream) is None
