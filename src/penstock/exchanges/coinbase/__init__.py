"""Coinbase Exchange: https://docs.cdp.coinbase.com/exchange. Not Advanced Trade, which differs."""

from penstock.exchanges.base import Exchange
from penstock.exchanges.coinbase.limits import KEYED_LIMITS, LIMITS
from penstock.exchanges.coinbase.rest import (
    CANDLES_PER_PAGE,
    GRANULARITIES,
    OPENED_MS,
    PAGED,
    TIME,
    CoinbaseRest,
    read_api_error,
)
from penstock.exchanges.coinbase.signing import signer
from penstock.exchanges.coinbase.stream import CoinbaseDialect
from penstock.exchanges.coinbase.symbols import INFO, NAME
from penstock.exchanges.keyed import KeyedAccess

EXCHANGE = Exchange(
    name=NAME,
    rest_url="https://api.exchange.coinbase.com",
    stream_url="wss://ws-feed.exchange.coinbase.com",
    limits_from={0: LIMITS},
    time=TIME,
    info=INFO,
    rest=CoinbaseRest,
    dialect=CoinbaseDialect,
    read_api_error=read_api_error,
    consecutive=frozenset({"trades"}),
    trade_pages="before_id",
    paged=PAGED,
    intervals=tuple(GRANULARITIES),
    empty_candles=False,
    candle_span=CANDLES_PER_PAGE,
    opened_ms=OPENED_MS,
    keyed=KeyedAccess(KEYED_LIMITS, signer),
)
