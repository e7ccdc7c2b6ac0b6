"""binance-connector's SpotWebsocketStreamClient, as its users read it, for a few seconds."""

import json
import sys
import time
from collections.abc import Callable

from binance.spot import Spot
from binance.websocket.spot.websocket_stream import SpotWebsocketStreamClient

LONGEST_S = 60
TRADED = ["ethusdt", "bnbusdt", "solusdt", "ethbtc", "btceur", "ltcusdt", "dogeusdt"]

raw: list = []
combined: list = []
pings: list = []
failures: list = []
address = sys.argv[1].replace("http", "ws")


def reader(frames: list, **options: object) -> SpotWebsocketStreamClient:
    return SpotWebsocketStreamClient(
        stream_url=address,
        on_message=lambda _, text: frames.append(json.loads(text)),
        on_ping=lambda _, payload: pings.append(payload.decode()),
        on_error=lambda _, error: failures.append(repr(error)),
        **options,
    )


def until(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LONGEST_S
    while not true() and time.monotonic() < give_up:
        time.sleep(0.1)


def count(kind: str) -> int:
    return sum(frame.get("e") == kind for frame in list(raw))


one, both = reader(raw), reader(combined, is_combined=True)
one.diff_book_depth("BTCUSDT", speed=100)
one.trade("BTCUSDT")
one.kline("BTCUSDT", "1s")
one.mini_ticker("BTCUSDT")
both.subscribe([f"{name}@trade" for name in TRADED] + ["nosuch@trade"])
both.book_ticker("BTCUSDT")
both.list_subscribe(id=7)
until(lambda: count("depthUpdate") >= 10 and count("trade") > 0)
snapshot = Spot(base_url=sys.argv[1]).depth("BTCUSDT", limit=1000)
one.trade("BTCUSDT", action=SpotWebsocketStreamClient.ACTION_UNSUBSCRIBE)
until(lambda: sum(frame.get("u", 0) > snapshot["lastUpdateId"] for frame in raw) >= 10)
until(lambda: len(pings) >= 4 and min(count("kline"), count("24hrMiniTicker")) >= 3)
until(lambda: sum("result" in frame for frame in (*raw, *combined)) == 8)
failures_before_leaving = list(failures)
one.stop()
both.stop()

json.dump(
    {
        "raw": raw,
        "combined": combined,
        "snapshot": snapshot,
        "pings": pings,
        "failures": failures_before_leaving,
    },
    sys.stdout,
)
