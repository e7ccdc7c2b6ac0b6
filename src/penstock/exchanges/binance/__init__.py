"""Binance spot: https://github.com/binance/binance-spot-api-docs."""

from penstock.exchanges.base import Exchange
from penstock.exchanges.binance.files import FILES
from penstock.exchanges.binance.limits import LIMITS_FROM, usages
from penstock.exchanges.binance.rest import PAGED, TIME, BinanceRest, agg_trades, read_api_error
from penstock.exchanges.binance.stream import BinanceDialect
from penstock.exchanges.binance.symbols import INFO, NAME

EXCHANGE = Exchange(
    name=NAME,
    rest_url="https://api.binance.com",
    stream_url="wss://stream.binance.com:9443",
    limits_from=LIMITS_FROM,
    time=TIME,
    info=INFO,
    rest=BinanceRest,
    dialect=BinanceDialect,
    usages=usages,
    read_api_error=read_api_error,
    consecutive=frozenset({"trades", "agg_trades"}),
    paged=PAGED,
    agg_trades=agg_trades,
    bulk_files=FILES,
)
