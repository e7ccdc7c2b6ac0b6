"""Binance's files of trades and candles: https://github.com/binance/binance-public-data.

Times in them are in milliseconds up to 2024, and in microseconds since.
"""

from collections.abc import Sequence

from penstock.exchanges.answers import plain_number, plain_numbers
from penstock.exchanges.binance.rest import Kline
from penstock.exchanges.binance.symbols import NAME
from penstock.exchanges.bulk_files import BulkFiles, instant_us, is_true, whole_number
from penstock.exchanges.rows import REST, candle_of
from penstock.market.events import Candle, Trade
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol


def _trade(values: Sequence[str], symbol: Symbol, received_at_ns: int) -> Trade:
    """51175358,17.80180000,5.69000000,101.29224200,1583709433583,True,True"""
    number, price, quantity, _, at, maker_bought, _ = values
    return Trade(
        exchange=NAME,
        symbol=symbol,
        received_at_ns=received_at_ns,
        source="backfill",
        id=whole_number(number),
        at_ns=instant_us(at) * 1000,
        price_text=plain_number(price),
        quantity_text=plain_number(quantity),
        taker="sell" if is_true(maker_bought) else "buy",
    )


def _candle(
    values: Sequence[str], symbol: Symbol, interval: Interval, received_at_ns: int
) -> Candle:
    """A row as that of a response, without quotes."""
    open_at, opening, high, low, close, volume, close_at, quote, trades, *bought, _ = values
    open_ms, close_ms = instant_us(open_at) // 1000, instant_us(close_at) // 1000
    prices = opening, high, low, close
    row = Kline(open_ms, *prices, volume, close_ms, quote, whole_number(trades), *bought)
    origin = NAME, symbol, received_at_ns, REST
    return candle_of(row, origin, interval, open_ms, closed=True, spell=plain_numbers)


FILES = BulkFiles(
    "data/spot/{frequency}/trades/{native}/{native}-trades-{date}.zip",
    _trade,
    "data/spot/{frequency}/klines/{native}/{interval}/{native}-{interval}-{date}.zip",
    _candle,
)
