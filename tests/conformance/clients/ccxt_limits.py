"""ccxt against an exchange that refuses: what it makes of 429, 418, 500 and a page of HTML."""

import json
import sys
import time

import ccxt

exchange = ccxt.binance()

exchange.timeout = 60_000
exchange.urls["api"]["public"] = sys.argv[1] + "/api/v3"


def outcome(call: str, *arguments: object) -> dict:
    """What a call came to, in ccxt's words and in the exchange's."""
    try:
        getattr(exchange, call)(*arguments)
    except ccxt.BaseError as error:
        kinds = [each.__name__ for each in type(error).__mro__]
        text = str(error)
    else:
        kinds, text = [], ""
    headers = {name.lower(): value for name, value in exchange.last_response_headers.items()}
    return {
        "kinds": kinds,
        "text": text,
        "used": headers.get("x-mbx-used-weight"),
        "retry_after": headers.get("retry-after"),
    }


broken = outcome("publicGetPing")
page = outcome("publicGetAvgPrice", {"symbol": "BNBBTC"})
outcomes = []
for _ in range(100):
    outcomes.append(outcome("fetch_time"))
    if " 418 " in outcomes[-1]["text"]:
        break
time.sleep(int(outcomes[-1]["retry_after"]))
after = outcome("fetch_time")

json.dump({"broken": broken, "page": page, "outcomes": outcomes, "after": after}, sys.stdout)
