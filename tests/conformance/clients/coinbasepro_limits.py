"""coinbasepro without its own limiter, against an exchange that soon refuses."""

import json
import sys

from coinbasepro import PublicClient
from coinbasepro.exceptions import CoinbaseAPIError

client = PublicClient(sys.argv[1], rate_limit=0)
outcomes = []
for _ in range(6):
    try:
        client.get_time()
        outcomes.append("served")
    except CoinbaseAPIError as error:
        outcomes.append(f"{type(error).__name__}: {error}")

json.dump({"outcomes": outcomes}, sys.stdout)
