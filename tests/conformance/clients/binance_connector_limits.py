"""binance-connector against an exchange that refuses: what it makes of 429, 418, 500 and HTML."""

import json
import sys
import time

from binance.error import ClientError, ServerError
from binance.spot import Spot

client = Spot(base_url=sys.argv[1])


def outcome(call: str, *arguments: str) -> dict:
    try:
        getattr(client, call)(*arguments)
    except ClientError as error:
        return {
            "kind": "ClientError",
            "status": error.status_code,
            "code": error.error_code,
            "used": error.header.get("x-mbx-used-weight"),
            "retry_after": error.header.get("retry-after"),
        }
    except ServerError as error:
        return {"kind": "ServerError", "status": error.status_code}
    return {"kind": "", "status": 200}


broken = outcome("ping")
page = outcome("avg_price", "BNBBTC")
outcomes = []
for _ in range(100):
    outcomes.append(outcome("time"))
    if outcomes[-1]["status"] == 418:
        break
time.sleep(int(outcomes[-1]["retry_after"]))
after = outcome("time")

json.dump({"broken": broken, "page": page, "outcomes": outcomes, "after": after}, sys.stdout)
