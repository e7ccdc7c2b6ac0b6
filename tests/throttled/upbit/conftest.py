"""A small stand-in for Upbit: counts each group's requests in every stretch of a second.

It is as strict as any reading of the rule: whichever second is looked at, an eleventh request in it
is refused.
"""

import json
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web

LIMIT, PERIOD_S = 10, 1.0
GROUPS = {
    "market": "market",
    "candles": "candle",
    "trades": "trade",
    "ticker": "ticker",
    "orderbook": "orderbook",
}
BODY = (
    b'[{"market":"KRW-BTC","trade_price":148520000,"trade_volume":0.00006043,'
    b'"change_rate":8.428e-05,"sequential_id":17510687993360000}]'
)


@dataclass
class Upbit:
    """What the stand-in saw, and what it shall say."""

    address: str = ""
    arrivals: dict[str, list[float]] = field(default_factory=dict)
    queries: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    answer_with: deque[web.Response] = field(default_factory=deque)
    """Said instead, first come first served."""
    foreign: int = 0
    """So many requests of others are in every count."""

    async def handle(self, request: web.Request) -> web.Response:
        now = time.monotonic()
        group = GROUPS[request.path.split("/")[2]]
        seen = self.arrivals.setdefault(group, [])
        seen.append(now)
        self.queries.append((request.path, dict(request.query)))
        self.headers.append(dict(request.headers))
        recent = sum(at > now - PERIOD_S for at in seen) + self.foreign
        left = {"Remaining-Req": f"group={group}; min=600; sec={max(0, LIMIT - recent)}"}
        if self.answer_with:
            response = self.answer_with.popleft()
        elif recent > LIMIT:
            complaint = {"error": {"name": "too_many_requests", "message": "slower"}}
            response = web.Response(status=429, body=json.dumps(complaint))
        else:
            response = web.Response(body=BODY, content_type="application/json")
        response.headers.update(left)
        self.statuses.append(response.status)
        return response


@pytest.fixture
async def upbit() -> AsyncIterator[Upbit]:
    stand_in = Upbit()
    app = web.Application()
    app.router.add_get("/v1/{rest:.*}", stand_in.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stand_in.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield stand_in
    await runner.cleanup()
