"""The control API under ``/_sim/``, for the judge and for operators.

An exchange has no such paths, so only programs on this machine have access: the peer, the requested
host and, for a browser, the page's origin must be loopback addresses. Requests through a proxy are
refused, since its clients are unknown. A client under test never uses this API; the judge does,
afterwards.

No request takes long: every parameter has a range, and rows that a log no longer keeps are counted
in ``dropped``. Control requests do not wait for clients: they are handled between two pieces of
clients' responses.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from ipaddress import ip_address
from typing import Annotated, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from penstock.errors import ConfigError
from penstock.simulator.engine.connections import describe
from penstock.simulator.engine.engine import Engine
from penstock.simulator.engine.exchange import Query
from penstock.simulator.engine.faults import read_plan
from penstock.simulator.engine.questions import BadQuestion, check_names, meant, read_query, whole
from penstock.simulator.engine.streams import Streams
from penstock.simulator.engine.turns import in_turns
from penstock.simulator.market.pieces import Work

PREFIX = "/_sim/"
WORKED = "Simulator-Worked-Ms"
"""The header with the processor time that this process has used so far."""
_LEDGER = "ledger/"
_MOST_ROWS = 20_000
_NOTICE_MS, _LONGEST_NOTICE_MS = 3000, 86_400_000
_LONGEST_PLAN, _LONGEST_PATTERN = 20_000, 1_000
_PROXY_HEADERS = (
    "via", "forwarded", "x-forwarded-", "x-real-ip", "x-proxy", "x-original-", "x-client-ip",
    "x-cluster-client-ip", "true-client-ip", "cf-", "proxy-",
)  # fmt: skip
_ANY_NUMBER = (0, (1 << 63) - 1)
_PIECES = 20
"""Pieces of a long response that are built at once: many, since control requests have priority."""


class _Question(NamedTuple):
    answer: Callable[[Query, bytes], object]
    parameters: tuple[str, ...] = ()


class _NoSuchPath(Exception):
    pass


class LedgerPort(Protocol):
    """The true data of the simulated markets."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """The slugs of all markets."""
        ...

    def answer_in_turns(self, question: str, query: Query) -> Work[Mapping[str, object]]:
        """The true data of one symbol, built in pieces.

        Raises:
            BadQuestion: there is no such question, or a parameter is missing or wrong.
        """
        ...


class Control:
    """Handles requests under ``/_sim/``."""

    def __init__(
        self,
        engine: Engine,
        streams: Streams,
        ledger: LedgerPort | None,
        state: Callable[[], object],
    ) -> None:
        self._engine, self._streams, self._ledger = engine, streams, ledger
        self._questions: Mapping[str, _Question] = {
            "GET state": _Question(lambda *_: state()),
            "GET requests": _Question(self._requests, ("after",)),
            "GET connections": _Question(self._connections),
            "GET windows": _Question(self._windows),
            "GET faults": _Question(self._faults, ("after",)),
            "POST faults": _Question(self._replan),
            "POST hold": _Question(self._hold),
            "POST unban": _Question(self._unban),
            "POST disconnect": _Question(self._disconnect, ("connection",)),
            "POST shutdown_notice": _Question(self._shutdown_notice),
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request, if it comes from this machine."""
        if not _is_local(request):
            return _respond({"error": "Only programs on this machine have access."}, 403)
        body = await request.read()
        try:
            answer = await self._answer(request.method, request.path[len(PREFIX) :], request, body)
        except _NoSuchPath as error:
            return _respond({"error": str(error)}, 404)
        except (BadQuestion, ConfigError, msgspec.DecodeError, RecursionError) as error:
            return _respond({"error": str(error)}, 400)
        return _respond(answer, 200)

    async def _answer(
        self, method: str, name: str, request: web.BaseRequest, body: bytes
    ) -> object:
        query = read_query([*request.query.items()])
        if method == "GET" and name.startswith(_LEDGER):
            if self._ledger is None:
                raise BadQuestion("This simulator keeps no ledger.")
            work = self._ledger.answer_in_turns(name[len(_LEDGER) :], query)
            return await in_turns(work, self._engine.clock, _PIECES)
        question = self._questions.get(f"{method} {name}")
        if question is None:
            raise self._no_such_path(method, name)
        check_names(query, question.parameters)
        return question.answer(query, body)

    def _no_such_path(self, method: str, name: str) -> Exception:
        near = meant(f"{method} {name}", self._questions)
        known = ", ".join(each.replace(" ", f" {PREFIX}") for each in self._questions)
        return _NoSuchPath(
            f"There is no such path.{near} There are: {known}, GET {PREFIX}{_LEDGER}…"
        )

    def _requests(self, query: Query, _: bytes) -> object:
        limiter = self._engine.limiter
        rows, dropped = limiter.packed_arrivals(_after(query), _MOST_ROWS)
        return {
            "in_flight": self._engine.in_flight,
            "totals": limiter.totals,
            "dropped": dropped,
            "requests": rows,
        }

    def _connections(self, *_: object) -> object:
        return {
            "open": [describe(client) for client in self._streams.open.values()],
            "dropped": self._streams.ended.dropped,
            "closed": self._streams.ended.descriptions(),
        }

    def _windows(self, *_: object) -> object:
        windows, now_ms = self._engine.windows, self._engine.clock.now_ms()
        reports = [asdict(report) for report in windows.closed(now_ms)]
        return {"dropped": windows.dropped, "windows": reports}

    def _faults(self, query: Query, _: bytes) -> object:
        injector = self._engine.injector
        rows, dropped = injector.log.packed(_after(query), _MOST_ROWS)
        return {
            "plan": injector.plan.text,
            "seed": injector.plan.seed,
            "counts": injector.log.counts,
            "dropped": dropped,
            "injected": rows,
        }

    def _replan(self, _: Query, body: bytes) -> object:
        wanted = msgspec.json.decode(body, type=_Plan)
        before = self._engine.injector.plan
        seed = before.seed if wanted.seed is None else wanted.seed
        plan = read_plan(wanted.plan, seed, origin=f"POST {PREFIX}faults")
        self._engine.injector.install(plan, self._engine.clock.now_ms())
        self._streams.replan()
        return {"plan": plan.text, "seed": plan.seed}

    def _hold(self, _: Query, body: bytes) -> object:
        wanted = msgspec.json.decode(body, type=_Held)
        at_ms = self._engine.broadcaster.hold(wanted.streams)
        if at_ms is None:
            raise BadQuestion("A recording is replayed here, and its streams cannot be held.")
        behind_ms = self._engine.broadcaster.behind_ms()
        return {"streams": wanted.streams, "at_ms": at_ms, "behind_ms": behind_ms}

    def _unban(self, *_: object) -> object:
        banned = self._engine.limiter.banned(self._engine.clock.now_ms())
        self._engine.limiter.unban()
        return {"forgiven": sorted(banned)}

    def _disconnect(self, query: Query, _: bytes) -> object:
        clients = [*self._streams.open.values()]
        if "connection" in query:
            only = whole(query, "connection", _ANY_NUMBER)
            clients = [each for each in clients if each.id == only]
        for client in clients:
            client.abort("disconnected on request", self._engine.clock.now_ms())
        return {"disconnected": len(clients)}

    def _shutdown_notice(self, _: Query, body: bytes) -> object:
        wanted = msgspec.json.decode(body, type=_Notice) if body else _Notice()
        leaves_ms = self._engine.clock.now_ms() + wanted.after_ms
        clients = list(self._streams.open.values())
        for client in clients:
            self._streams.give_notice(client, leaves_ms)
        return {"warned": len(clients), "leaves_ms": leaves_ms}


class _Plan(msgspec.Struct, forbid_unknown_fields=True):
    plan: Annotated[str, msgspec.Meta(max_length=_LONGEST_PLAN)]
    seed: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None


class _Held(msgspec.Struct, forbid_unknown_fields=True):
    streams: Annotated[str, msgspec.Meta(max_length=_LONGEST_PATTERN)]


class _Notice(msgspec.Struct, forbid_unknown_fields=True):
    after_ms: Annotated[int, msgspec.Meta(ge=0, le=_LONGEST_NOTICE_MS)] = _NOTICE_MS


def _after(query: Query) -> int:
    return whole(query, "after", _ANY_NUMBER, 0)


def _is_local(request: web.BaseRequest) -> bool:
    page = request.headers.get("Origin")
    return (
        not _came_by_proxy(request)
        and _is_loopback(request.remote)
        and _is_loopback(_host_of(f"//{request.host}"))
        and (page is None or _is_loopback(_host_of(page)))
    )


def _came_by_proxy(request: web.BaseRequest) -> bool:
    """Whether the request was sent to a proxy, or has a header that a proxy adds."""
    if not request.raw_path.startswith("/"):
        return True  # An absolute URL, as a client sends it to a proxy.
    return any(name.lower().startswith(_PROXY_HEADERS) for name in request.headers)


def _host_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False


def _respond(answer: object, status: int) -> web.Response:
    body = msgspec.json.encode(answer)
    headers = {WORKED: str(round(time.process_time() * 1000))}
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")
