"""Upbit, as in Korea: https://docs.upbit.com."""

from penstock.exchanges.base import Exchange
from penstock.exchanges.upbit.limits import LIMITS, usages
from penstock.exchanges.upbit.rest import (
    CANDLE_DAYS,
    CANDLES_PER_PAGE,
    OPENED_MS,
    PAGE,
    PAGED,
    PATHS,
    UpbitRest,
    read_api_error,
    trade_id_at,
)
from penstock.exchanges.upbit.stream import UpbitDialect
from penstock.exchanges.upbit.symbols import INFO, NAME

EXCHANGE = Exchange(
    name=NAME,
    rest_url="https://api.upbit.com",
    stream_url="wss://api.upbit.com",
    limits_from={0: LIMITS},
    time=None,
    info=INFO,
    rest=UpbitRest,
    dialect=UpbitDialect,
    usages=usages,
    read_api_error=read_api_error,
    trade_pages="before_id",
    trade_page_size=PAGE,
    paged=PAGED,
    trade_id_at=trade_id_at,
    intervals=tuple(PATHS),
    empty_candles=False,
    candle_days=CANDLE_DAYS,
    candle_span=CANDLES_PER_PAGE,
    opened_ms=OPENED_MS,
)
