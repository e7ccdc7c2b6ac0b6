"""pyupbit, as its users call it: tickers, candles, prices, books, and its WebSocket in a process.

Its addresses are written into its code, so requests for them are sent to the simulator instead.
"""

import json
import sys

import pyupbit
import requests
import websockets
from pyupbit import WebSocketManager

HOST = "https://api.upbit.com"
FRAMES = 10

base = sys.argv[1]
_get, _connect = requests.get, websockets.connect
requests.get = lambda url, **more: _get(url.replace(HOST, base), **more)
websockets.connect = lambda url, **more: _connect(
    url.replace(HOST.replace("https", "wss"), base.replace("http", "ws")), **more
)


def rows(frame: object) -> list:
    """A table, with its times in Korea."""
    return [[str(at), *map(float, values)] for at, *values in frame.itertuples()]


def frames(kind: str, codes: list) -> list:
    manager = WebSocketManager(kind, codes)
    seen = [manager.get() for _ in range(FRAMES)]
    manager.terminate()
    return seen


if __name__ == "__main__":
    results = {
        "tickers": pyupbit.get_tickers(),
        "won": pyupbit.get_tickers(fiat="KRW"),
        "minutes": rows(pyupbit.get_ohlcv("KRW-LINK", "minute1", 600)),
        "days": rows(pyupbit.get_ohlcv("KRW-BTC", "day", 400)),
        "weeks": rows(pyupbit.get_ohlcv("BTC-XRP", "week", 10, to="2024-06-01 00:00:00")),
        "price": pyupbit.get_current_price("KRW-BTC"),
        "prices": pyupbit.get_current_price(["KRW-BTC", "BTC-XRP"]),
        "book": pyupbit.get_orderbook("KRW-BTC"),
        "books": pyupbit.get_orderbook(["KRW-BTC", "BTC-XRP"]),
        "trade_frames": frames("trade", pyupbit.get_tickers()),
        "book_frames": frames("orderbook", ["KRW-BTC"]),
        "ticker_frames": frames("ticker", pyupbit.get_tickers()),
    }
    json.dump(results, sys.stdout)
