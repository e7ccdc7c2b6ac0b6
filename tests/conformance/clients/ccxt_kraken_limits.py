"""ccxt over Kraken's limit: what it makes of the refusals, and whether it gets in again."""

import json
import sys
import time

import ccxt

exchange = ccxt.kraken({"enableRateLimit": False})

exchange.timeout = 60_000
exchange.urls["api"]["public"] = sys.argv[1]


def outcome() -> list:
    try:
        exchange.publicGetTime()
    except ccxt.BaseError as error:
        return [[kind.__name__ for kind in type(error).__mro__], str(error)]
    return []


outcomes = [outcome() for _ in range(8)]
time.sleep(4)
json.dump({"refused": [each for each in outcomes if each], "after": outcome()}, sys.stdout)
