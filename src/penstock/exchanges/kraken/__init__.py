"""Kraken spot: https://docs.kraken.com/api."""

from penstock.exchanges.base import AssetNames, Exchange
from penstock.exchanges.kraken.limits import LIMITS
from penstock.exchanges.kraken.payloads import MINUTES
from penstock.exchanges.kraken.rest import LATEST_CANDLES, PAGED, TIME, KrakenRest, read_api_error
from penstock.exchanges.kraken.stream import KrakenDialect
from penstock.exchanges.kraken.symbols import ASSETS, INFO, NAME, info_with

EXCHANGE = Exchange(
    name=NAME,
    rest_url="https://api.kraken.com",
    stream_url="wss://ws.kraken.com",
    limits_from={0: LIMITS},
    time=TIME,
    info=INFO,
    asset_names=AssetNames(ASSETS, info_with),
    rest=KrakenRest,
    dialect=KrakenDialect,
    read_api_error=read_api_error,
    refuses_with_200=True,
    time_step_ms=1000,
    consecutive=frozenset({"trades"}),
    trade_pages="after_ns",
    paged=PAGED,
    intervals=tuple(MINUTES),
    latest_candles=LATEST_CANDLES,
)
