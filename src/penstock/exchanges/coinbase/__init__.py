"""Coinbase Exchange: https://docs.cdp.coinbase.com/exchange. Not Advanced Trade, which differs."""

from penstock.exchanges.base import Exchange
from penstock.exchanges.coinbase.limits import limits_at, usages
from penstock.exchanges.coinbase.rest import (
    GRANULARITIES,
    INFO,
    TIME,
    CoinbaseRest,
    read_complaint,
)
from penstock.exchanges.coinbase.stream import CoinbaseDialect
from penstock.exchanges.coinbase.symbols import NAME

EXCHANGE = Exchange(
    name=NAME,
    rest_url="https://api.exchange.coinbase.com",
    stream_url="wss://ws-feed.exchange.coinbase.com",
    limits=limits_at,
    time=TIME,
    info=INFO,
    rest=CoinbaseRest,
    dialect=CoinbaseDialect,
    usages=usages,
    complaint=read_complaint,
    consecutive=frozenset({"trades"}),
    trade_pages="before_id",
    intervals=tuple(GRANULARITIES),
    empty_candles=False,
)
