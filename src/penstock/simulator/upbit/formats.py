"""Encodes messages in the four formats of a stream: long or short names, plain or in a list.

Messages are built with long names and values that are JSON already; a format only renames the
fields. The short name of a date differs between tickers and trades.
"""

from penstock.simulator.upbit.ticker import Fields, written

FORMATS = ("DEFAULT", "SIMPLE", "JSON_LIST", "SIMPLE_LIST")

_SHORT = {
    "type": "ty",
    "code": "cd",
    "timestamp": "tms",
    "trade_date": "td",
    "trade_time": "ttm",
    "trade_timestamp": "ttms",
    "opening_price": "op",
    "high_price": "hp",
    "low_price": "lp",
    "trade_price": "tp",
    "trade_volume": "tv",
    "ask_bid": "ab",
    "prev_closing_price": "pcp",
    "change": "c",
    "change_price": "cp",
    "change_rate": "cr",
    "signed_change_price": "scp",
    "signed_change_rate": "scr",
    "sequential_id": "sid",
    "best_ask_price": "bap",
    "best_ask_size": "bas",
    "best_bid_price": "bbp",
    "best_bid_size": "bbs",
    "acc_trade_price": "atp",
    "acc_trade_price_24h": "atp24h",
    "acc_trade_volume": "atv",
    "acc_trade_volume_24h": "atv24h",
    "acc_ask_volume": "aav",
    "acc_bid_volume": "abv",
    "highest_52_week_price": "h52wp",
    "highest_52_week_date": "h52wdt",
    "lowest_52_week_price": "l52wp",
    "lowest_52_week_date": "l52wdt",
    "market_state": "ms",
    "is_trading_suspended": "its",
    "delisting_date": "dd",
    "market_warning": "mw",
    "total_ask_size": "tas",
    "total_bid_size": "tbs",
    "orderbook_units": "obu",
    "ask_price": "ap",
    "bid_price": "bp",
    "ask_size": "as",
    "bid_size": "bs",
    "level": "lv",
    "candle_date_time_utc": "cdttmu",
    "candle_date_time_kst": "cdttmk",
    "candle_acc_trade_volume": "catv",
    "candle_acc_trade_price": "catp",
    "stream_type": "st",
}
_SHORT_IN_TICKER = {**_SHORT, "trade_date": "tdt"}


def encode(fields: Fields, form: str) -> bytes:
    """A message in a format."""
    text = part(fields, form)
    return (f"[{text}]" if form.endswith("LIST") else text).encode()


def part(fields: Fields, form: str) -> str:
    """An object inside a message."""
    if not form.startswith("SIMPLE"):
        return written(fields)
    short = _SHORT_IN_TICKER if fields.get("type") == '"ticker"' else _SHORT
    return written({short[name]: value for name, value in fields.items()})
