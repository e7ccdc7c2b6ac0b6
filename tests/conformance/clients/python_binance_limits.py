"""python-binance against an exchange that refuses: what it makes of 429, 418, 500 and HTML."""

import asyncio
import json
import sys

from aiohttp import ContentTypeError
from binance import AsyncClient
from binance.exceptions import BinanceAPIException, BinanceRequestException


async def outcome(client: AsyncClient, call: str, **query: str) -> dict:
    try:
        await getattr(client, call)(**query)
    except BinanceAPIException as error:
        status, code = error.status_code, error.code
    except (BinanceRequestException, ContentTypeError):
        status, code = 0, "no JSON"
    else:
        status, code = 200, None
    headers = client.response.headers
    return {
        "status": status,
        "code": code,
        "used": headers.get("x-mbx-used-weight"),
        "retry_after": headers.get("Retry-After"),
    }


async def main(base: str) -> dict:
    AsyncClient.API_URL = base + "/api"
    client = AsyncClient()  # not create(): that pings, and ping is out of order here
    try:
        broken = await outcome(client, "ping")
        page = await outcome(client, "get_avg_price", symbol="BNBBTC")
        outcomes = []
        for _ in range(100):
            outcomes.append(await outcome(client, "get_server_time"))
            if outcomes[-1]["status"] == 418:
                break
        await asyncio.sleep(int(outcomes[-1]["retry_after"]))
        after = await outcome(client, "get_server_time")
    finally:
        await client.close_connection()
    return {"broken": broken, "page": page, "outcomes": outcomes, "after": after}


json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
