"""A second program at the same address, with a limiter of its own that knows of nobody else.

``python -m bench._foreign_client ADDRESS SECONDS WEIGHT_PER_MINUTE``: asks for the best quotes of
one market at an even pace, one request at a time, each of weight 2. Told to stop, it stops for as
long as it was told. Ends with one JSON object: how often it heard which status.
"""

import json
import sys
import time
from collections import Counter
from http.client import HTTPConnection

COST = 2
PATH = "/api/v3/ticker/bookTicker?symbol=BTCUSDT"


def main(address: str, seconds: float, weight_per_minute: float) -> None:
    connection = HTTPConnection(address.removeprefix("http://"), timeout=10)
    heard: Counter[int] = Counter()
    pause_s = 60 * COST / weight_per_minute
    due = time.monotonic()
    end = due + seconds
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        connection.request("GET", PATH)
        answer = connection.getresponse()
        answer.read()
        heard[answer.status] += 1
        due = max(due + pause_s, time.monotonic() + int(answer.headers.get("Retry-After", "0")))
    print(json.dumps(heard))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
