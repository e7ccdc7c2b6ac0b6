"""REST: one request from its arrival to its answer.

A request travels (a jitter), is counted, waits (the latency), and only then costs work. The wait
lies between counting and work on purpose: without it the work for one request would delay the
counting of the next, and the server's own slowness would move requests into another window. The
answer is as of the instant of admission, however long it took.

However many answers are due, the loop makes one that takes a millisecond or more between two looks
at everything else: at new requests, at questions to the simulator itself, at streams. Long answers
are made one after the other, in pieces, and short ones do not wait for them.
"""

import asyncio
from collections.abc import Generator

from aiohttp import web

from penstock.simulator.engine.engine import Engine
from penstock.simulator.engine.exchange import Asked, Refused, Reply, Route, SimulatedExchange
from penstock.simulator.engine.injection import RequestFaults
from penstock.simulator.engine.limits import ANY_TARGET, Verdict
from penstock.simulator.engine.turns import in_turns
from penstock.simulator.market.rng import key, mix

_UNKNOWN_PATH_WEIGHT = 1
_TURN_NS = 1_000_000  # after an answer that took longer, others on the loop have their turn
_PAGE = b"<html><head><title>Error</title></head><body><h1>Sorry, not now.</h1></body></html>"


class RestServer:
    """Answers requests."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._uplink_key = key("uplink", engine.settings.seed)
        self._latency_key = key("latency", engine.settings.seed)
        self._short_turn, self._long_turn = asyncio.Lock(), asyncio.Lock()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        engine = self._engine
        engine.requests += 1
        engine.in_flight += 1
        try:
            return await self._answer(request, engine.requests)
        finally:
            engine.in_flight -= 1

    async def _answer(self, request: web.BaseRequest, seq: int) -> web.StreamResponse:
        engine, path = self._engine, request.path
        found = engine.router.find(path) if request.method == "GET" else None
        weight, target, asked = _UNKNOWN_PATH_WEIGHT, ANY_TARGET, Asked({}, request.headers)
        if found is not None:
            route, named = found
            asked = Asked({**_parameters(request), **named}, request.headers)
            weight, target = route.cost(asked.query), route.target(asked)
        await self._travel(seq)

        ip, now_ms = request.remote or "", engine.clock.now_ms()
        verdict = engine.limiter.admit(ip, path, weight, now_ms, target)
        engine.windows.count(weight, verdict)
        faults = engine.injector.for_request(path, seq)
        await self._think(seq, faults)

        if not verdict.admitted:
            engine.tell_refused(path, verdict)
            refusal = _with_usage(engine, engine.exchange.refusal(verdict), verdict)
            return respond(engine.exchange, refusal)
        if faults.status is not None:
            reply = self._spoiled(verdict, faults)
        elif found is None:
            reply = engine.exchange.not_found(path)
        else:
            reply = await self._answered(route, asked, verdict.at_ms + faults.shift_ms)
        for kind in faults.kinds:
            hid = reply.body if faults.status is None else b""
            engine.injector.log.write(verdict.at_ms, kind, path, (0, verdict.seq), hid)
        reply = _with_usage(engine, reply, verdict)
        if faults.cut_body:
            return await _send_half(request, engine.exchange, reply)
        return respond(engine.exchange, reply)

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
                    # Whoever waits for a turn begins when others on the loop have had theirs.
                    await clock.sleep(0)
            if isinstance(answer, Generator):
                # One at a time: half-made answers of many megabytes are not held side by side.
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
        # Told as the exchange would, though nothing was counted: a storm, not a broken limit.
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
    """One that was sent several times is its values with commas between them."""
    return {name: ",".join(request.query.getall(name)) for name in request.query}


def respond(exchange: SimulatedExchange, reply: Reply) -> web.Response:
    """A reply as aiohttp wants it."""
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
