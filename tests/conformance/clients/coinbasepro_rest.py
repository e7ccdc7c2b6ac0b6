"""coinbasepro, a client of Coinbase's Exchange API, as its users call it."""

import json
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice

from coinbasepro import PublicClient
from coinbasepro.exceptions import CoinbaseAPIError

client = PublicClient(sys.argv[1], rate_limit=10, burst_size=15)


def said(call: str, *arguments: object) -> list:
    """How the client understands a refusal."""
    try:
        getattr(client, call)(*arguments)
    except CoinbaseAPIError as error:
        return [type(error).__name__, str(error)]
    return []


def iso(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


now = datetime.now(UTC).replace(second=0, microsecond=0)
start = now - timedelta(hours=30)
candles = client.get_product_historic_rates(
    "SHIB-USD", iso(start), iso(start + timedelta(minutes=299)), 60
)
results = {
    "time": client.get_time(),
    "products": client.get_products(),
    "product": client.get_product("BTC-USD"),
    "currencies": client.get_currencies(),
    "candles": candles,
    "trades": list(islice(client.get_product_trades("ETH-USD"), 2500)),
    "first_trades": list(client.get_product_trades("SHIB-USD", trade_id=1500)),
    "books": {level: client.get_product_order_book("1INCH-USD", level) for level in (1, 2, 3)},
    "ticker": client.get_product_ticker("BTC-USD"),
    "stats": client.get_product_24hr_stats("BTC-USD"),
    "bad_product": said("get_product", "NO-SUCH"),
    "too_many": said(
        "get_product_historic_rates", "BTC-USD", iso(now - timedelta(days=2)), iso(now), 60
    ),
}

json.dump(results, sys.stdout, default=str)
