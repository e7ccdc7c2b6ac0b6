"""Control: what a judge or an operator asks of the simulator itself, under ``/_sim/``.

An exchange has no such paths, so nothing here is open to anybody but programs on this machine:
both the peer and the name it asked for must be a loopback address, and so must be the page that a
browser asks for. A client under test never looks in here; whoever judges it does, afterwards.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from penstock.errors import ConfigError
from penstock.simulator.engine import Engine
from penstock.simulator.exchange import Query
from penstock.simulator.faults import read_plan
from penstock.simulator.streams import Streams
from penstock.simulator.wire import Client

PREFIX = "/_sim/"
_LEDGER = "ledger/"
_MOST_ROWS = 20_000
_NOTICE_MS = 3000

_Answer = Callable[[Query, bytes], object]


class BadQuestion(Exception):
    """A question nobody can answer; the message says why."""


class Truth(Protocol):
    """Knows what really happened on the markets that are simulated."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every market, by slug."""
        ...

    def answer(self, question: str, query: Query) -> Mapping[str, object]:
        """The truth about one symbol.

        Raises:
            BadQuestion: there is no such question, or a parameter is missing or wrong.
        """
        ...


class Control:
    """Answers what lies under ``/_sim/``."""

    def __init__(
        self, engine: Engine, streams: Streams, truth: Truth | None, state: Callable[[], object]
    ) -> None:
        self._engine, self._streams, self._truth = engine, streams, truth
        self._answers: Mapping[tuple[str, str], _Answer] = {
            ("GET", "state"): lambda *_: state(),
            ("GET", "requests"): self._requests,
            ("GET", "connections"): self._connections,
            ("GET", "windows"): self._windows,
            ("GET", "faults"): self._faults,
            ("POST", "faults"): self._replan,
            ("POST", "unban"): self._unban,
            ("POST", "disconnect"): self._disconnect,
            ("POST", "shutdown_notice"): self._shutdown_notice,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one question, if it comes from this machine."""
        if not _is_local(request):
            return _respond({"error": "Only programs on this machine may ask this."}, 403)
        body = await request.read()
        try:
            answer = self._answer(request.method, request.path[len(PREFIX) :], request, body)
        except (BadQuestion, ConfigError, msgspec.DecodeError) as error:
            return _respond({"error": str(error)}, 400)
        if answer is None:
            known = ", ".join(f"{method} {PREFIX}{name}" for method, name in self._answers)
            return _respond({"error": f"There is no such path. There are: {known}."}, 404)
        return _respond(answer, 200)

    def _answer(
        self, method: str, name: str, request: web.BaseRequest, body: bytes
    ) -> object | None:
        query = dict(request.query)
        if method == "GET" and name.startswith(_LEDGER):
            if self._truth is None:
                raise BadQuestion("This simulator keeps no ledger.")
            return self._truth.answer(name[len(_LEDGER) :], query)
        answer = self._answers.get((method, name))
        return answer(query, body) if answer is not None else None

    def _requests(self, query: Query, _: bytes) -> object:
        arrivals = self._engine.admission.arrivals(_after(query))[:_MOST_ROWS]
        return {
            "in_flight": self._engine.in_flight,
            "requests": [arrival._asdict() for arrival in arrivals],
        }

    def _connections(self, *_: object) -> object:
        return {
            "open": [_describe(client) for client in self._streams.open.values()],
            "closed": [_describe(client) for client in self._streams.recent],
        }

    def _windows(self, *_: object) -> object:
        now_ms = self._engine.clock.now_ms()
        return {"windows": [asdict(report) for report in self._engine.windows.closed(now_ms)]}

    def _faults(self, query: Query, _: bytes) -> object:
        injector = self._engine.injector
        entries = injector.log.entries(_after(query))[:_MOST_ROWS]
        return {
            "plan": injector.plan.text,
            "seed": injector.plan.seed,
            "counts": injector.log.counts,
            "injected": [entry._asdict() for entry in entries],
        }

    def _replan(self, _: Query, body: bytes) -> object:
        wanted = msgspec.json.decode(body, type=_Plan)
        before = self._engine.injector.plan
        seed = before.seed if wanted.seed is None else wanted.seed
        plan = read_plan(wanted.plan, seed, origin=f"POST {PREFIX}faults")
        self._engine.injector.install(plan, self._engine.clock.now_ms())
        self._streams.replan()
        return {"plan": plan.text, "seed": plan.seed}

    def _unban(self, *_: object) -> object:
        banned = self._engine.admission.banned(self._engine.clock.now_ms())
        self._engine.admission.unban()
        return {"forgiven": sorted(banned)}

    def _disconnect(self, query: Query, _: bytes) -> object:
        only = query.get("connection")
        clients = [each for each in self._streams.open.values() if only in (None, str(each.id))]
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
    plan: str
    seed: int | None = None


class _Notice(msgspec.Struct, forbid_unknown_fields=True):
    after_ms: int = _NOTICE_MS


def _describe(client: Client) -> dict[str, Any]:
    return {
        "id": client.id,
        "ip": client.ip,
        "path": client.path,
        "opened_ms": client.opened_ms,
        "closed_ms": client.closed_ms,
        "reason": client.reason,
        "streams": list(client.subscriber.streams),
        "frames_sent": client.frames_sent,
        "messages_received": client.messages_received,
        "subscriptions": [asdict(change) for change in client.changes],
    }


def _after(query: Query) -> int:
    text = query.get("after", "0")
    if not text.isdecimal():
        raise BadQuestion(f"after must be a whole number, not {text!r}.")
    return int(text)


def _is_local(request: web.BaseRequest) -> bool:
    named = urlsplit(f"//{request.host}").hostname
    page = request.headers.get("Origin")
    return (
        _is_loopback(request.remote)
        and _is_loopback(named)
        and (page is None or _is_loopback(urlsplit(page).hostname))
    )


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False


def _respond(answer: object, status: int) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(answer), status=status, content_type="application/json"
    )
