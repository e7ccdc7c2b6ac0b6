"""Binance's files of trades and candles: https://github.com/binance/binance-public-data.

Times in them are in milliseconds up to 2024, and in microseconds since. Rows of candles are those
of responses, without quotes.
"""

from penstock.exchanges.binance.rest import Kline
from penstock.exchanges.binance.symbols import NAME
from penstock.exchanges.bulk_files import BulkFiles

FILES = BulkFiles(
    NAME,
    "data/spot/{frequency}/trades/{native}/{native}-trades-{date}.zip",
    # 51175358,17.80180000,5.69000000,101.29224200,1583709433583,True,True
    ("id", "price", "quantity", "quote_quantity", "at", "maker_bought", "best_match"),
    "data/spot/{frequency}/klines/{native}/{interval}/{native}-{interval}-{date}.zip",
    (*Kline.__struct_fields__, "unused"),
)
