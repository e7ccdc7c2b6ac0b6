"""ccxt's side of the ingest benchmark, in its own environment: a plain loop over pages of trades.

One page after the other by id, as a user of ``fetch_trades`` writes it, with ccxt's own rate limit
switched on, which is that of the exchange. Each line it reads is ``{"address": …, "symbol": …,
"last_id": …, "pages": …}``; markets are loaded before the clock starts.
"""

import json
import sys
import time

import ccxt

PAGE = 1000


def fetch(address, symbol, last_id, pages):
    exchange = ccxt.coinbaseexchange({"enableRateLimit": True, "timeout": 60_000})
    exchange.urls["api"]["public"] = address
    exchange.load_markets()
    begun_s, ids, after = time.monotonic(), set(), last_id + 1
    for _ in range(pages):
        page = exchange.fetch_trades(symbol, limit=PAGE, params={"after": str(after)})
        found = [int(trade["id"]) for trade in page]
        ids.update(found)
        after = min(found)
    wall_s = time.monotonic() - begun_s
    complete = ids == set(range(last_id - pages * PAGE + 1, last_id + 1))
    return {"wall_s": wall_s, "complete": complete, "version": ccxt.__version__}


def main():
    for line in sys.stdin:
        print(json.dumps(fetch(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
