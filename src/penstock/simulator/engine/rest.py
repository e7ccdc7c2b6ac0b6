"""Handles a REST request from its arrival to its response.

A request is delayed (jitter), counted, delayed again (latency), and only then processed. The delay
between counting and processing is intended: without it, processing one request would delay the
counting of the next, and a slow server would move requests into another window. The response is as
of the time of admission, however long it took.

Whenever a response took more than a millisecond to build, the loop runs other tasks before the
next: new requests, control requests, streams. Long responses are built one at a time, in pieces,
and short ones do not wait for them.
"""

import asyncio
from collections.abc import Generator

from aiohttp import web

from penstock.simulator.engine.engine import Engine
from penstock.simulator.engine.exchange import (
    Asked,
    Query,
    Refused,
    Reply,
    Route,
    SimulatedExchange,
)
from penstock.simulator.engine.injection import RequestFaults
from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.rules import ANY_TARGET
from penstock.simulator.engine.turns import in_turns
from penstock.simulator.market.rng import key, mix

_UNKNOWN_PATH_WEIGHT = 1
_TURN_NS = 1_000_000  # after a response that took longer, yield to other tasks
_PAGE = b"<html><head><title>Error</title></head><body><h1>Sorry, not now.</h1></body></html>"


class RestServer:
    """Handles REST requests."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._uplink_key = key("uplink", engine.settings.seed)
        self._latency_key = key("latency", engine.settings.seed)
        self._short_turn, self._long_turn = asyncio.Lock(), asyncio.Lock()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request."""
        engine = self._engine
        engine.requests += 1
        engine.in_flight += 1
        try:
            return await self._answer(request, engine.requests)
        finally:
            engine.in_flight -= 1

    async def _answer(self, request: web.BaseRequest, seq: int) -> web.StreamResponse:
        engine, path, found = self._engine, request.path, self._found(request)
        weight, target, asked = _UNKNOWN_PATH_WEIGHT, ANY_TARGET, Asked({}, request.headers)
        if found is not None:
            route, named = found
            asked = Asked({**_parameters(request), **named}, request.headers, request.raw_path)
            weight, target = route.cost(asked.query), route.target(asked)
        await self._travel(seq)

        ip, now_ms = request.remote or "", engine.clock.now_ms()
        if found is None or route.is_counted:
            verdict = engine.limiter.admit(ip, path, weight, now_ms, target)
            engine.windows.count(weight, verdict)
        else:
            verdict = Verdict(admitted=True, at_ms=now_ms, window=0, used={})
        faults = engine.injector.for_request(path, seq)
        await self._think(seq, faults)

        if not verdict.admitted:
            engine.emit_refused(path, verdict)
            refusal = _with_usage(engine, engine.exchange.refusal(verdict), verdict)
            return respond(engine.exchange, refusal)
        if found is None or faults.status == 404:
            reply = engine.exchange.not_found(path)
        elif faults.status is not None:
            reply = self._spoiled(verdict, faults)
        else:
            reply = await self._answered(route, asked, verdict.at_ms + faults.shift_ms)
        for kind in faults.kinds:
            hid = reply.body if faults.status is None else b""
            engine.injector.log.write(verdict.at_ms, kind, path, (0, verdict.seq), hid)
        reply = _with_usage(engine, faults.altered(reply), verdict)
        if faults.cut_body:
            return await _send_half(request, engine.exchange, reply)
        return respond(engine.exchange, reply)

    def _found(self, request: web.BaseRequest) -> tuple[Route, Query] | None:
        found = self._engine.router.find(request.path)
        # Only files can be asked for their size.
        if found is None or request.method == "GET":
            return found
        return found if request.method == "HEAD" and not found[0].is_counted else None

    async def _travel(self, seq: int) -> None:
        if uplink_us := self._engine.settings.uplink_ms * 1000:
            drawn_us = mix(self._uplink_key ^ seq) % (uplink_us + 1)
            await self._engine.clock.sleep(drawn_us / 1_000_000)

    async def _think(self, seq: int, faults: RequestFaults) -> None:
        latency_us = self._engine.settings.latency_ms * 1000
        drawn_us = latency_us // 2 + mix(self._latency_key ^ seq) % (latency_us + 1)
        if faults.latency_ms is not None:
            drawn_us = faults.latency_ms * 1000
        await self._engine.clock.sleep(max(1000, drawn_us) / 1_000_000)

    async def _answered(self, route: Route, asked: Asked, as_of_ms: int) -> Reply:
        clock = self._engine.clock
        try:
            async with self._short_turn:
                began_ns = clock.monotonic_ns()
                answer = route.answer(asked, as_of_ms)
                if clock.monotonic_ns() - began_ns > _TURN_NS:
                    # The next waiting request starts after other tasks of the loop have run.
                    await clock.sleep(0)
            if isinstance(answer, Generator):
                # One at a time, so that unfinished responses of many megabytes do not add up.
                async with self._long_turn:
                    answer = await in_turns(answer, clock)
        except Refused as refused:
            return refused.reply
        return answer if isinstance(answer, Reply) else Reply(answer)

    def _spoiled(self, verdict: Verdict, faults: RequestFaults) -> Reply:
        assert faults.status is not None
        if faults.page:
            return Reply(_PAGE, faults.status, content_type="text/html")
        if faults.status == 500:
            return self._engine.exchange.failure()
        # Worded like a refusal of the exchange, although no limit was exceeded.
        until_ms = verdict.at_ms + faults.retry_after_s * 1000
        return self._engine.exchange.refusal(
            Verdict(
                admitted=False,
                at_ms=verdict.at_ms,
                window=verdict.window,
                used=verdict.used,
                broken=self._engine.limiter.rules[0],
                retry_after_s=faults.retry_after_s,
                banned_until_ms=until_ms if faults.status == 418 else None,
            )
        )


def _parameters(request: web.BaseRequest) -> dict[str, str]:
    """The query parameters; the values of a repeated one are joined with commas."""
    return {name: ",".join(request.query.getall(name)) for name in request.query}


def respond(exchange: SimulatedExchange, reply: Reply) -> web.Response:
    """The reply as an aiohttp response."""
    return web.Response(body=reply.body, status=reply.status, headers=_headers(exchange, reply))


def _headers(exchange: SimulatedExchange, reply: Reply) -> dict[str, str]:
    content_type = reply.content_type or exchange.content_type
    return {**exchange.headers, "Content-Type": content_type, **reply.headers}


def _with_usage(engine: Engine, reply: Reply, verdict: Verdict) -> Reply:
    headers = {**engine.exchange.usage_headers(verdict), **reply.headers}
    return Reply(reply.body, reply.status, headers, reply.content_type)


async def _send_half(
    request: web.BaseRequest, exchange: SimulatedExchange, reply: Reply
) -> web.StreamResponse:
    response = web.StreamResponse(status=reply.status, headers=_headers(exchange, reply))
    response.content_length = len(reply.body)
    await response.prepare(request)
    await response.write(reply.body[: len(reply.body) // 2])
    if request.transport is not None:
        request.transport.close()
    return response
