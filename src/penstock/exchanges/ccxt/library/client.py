"""Creates ccxt clients whose REST requests are sent by a gateway.

The client's rate limiter is replaced by one that only stores the cost of a request, and its
``fetch`` by penstock's. So every request that it makes, directly or as part of a call, acquires
tokens at the gate and is sent by the gateway. ccxt opens its sockets itself: they receive data and
send no REST requests.
"""

import importlib
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from penstock.errors import MissingExtra, UnknownExchange
from penstock.exchanges.base import ExchangeClient, Request
from penstock.exchanges.ccxt.library.numbers import ExactNumber, exact_float
from penstock.exchanges.ccxt.library.refusals import Parser, judge_of
from penstock.exchanges.ccxt.limits import UNITS, units
from penstock.exchanges.raw_request import RawRequest

PREFIX = "ccxt:"


def names() -> list[str]:
    """All exchanges that ccxt supports, by their penstock names.

    Raises:
        MissingExtra: ccxt is not installed.
    """
    return [PREFIX + name for name in _library("ccxt.async_support").exchanges]


def make(name: str) -> Any:
    """A client of an exchange. It opens no connection; ``send_through`` gives it a gateway.

    Raises:
        UnknownExchange: ccxt supports no exchange of that name.
        MissingExtra: ccxt is not installed.
    """
    known = names()
    if PREFIX + name not in known:
        raise UnknownExchange(PREFIX + name, known)
    streaming, asking = _library("ccxt.pro"), _library("ccxt.async_support")
    made = getattr(streaming if name in streaming.exchanges else asking, name)
    client = made({"enableRateLimit": True})
    _only_spot(client.options)
    _count_exactly(client)
    return client


def _count_exactly(client: Any) -> None:
    """Make a client keep the digits of all numbers except those in market listings.

    It reads its listings again, and accepts only its own numbers there.
    """
    is_listing = ContextVar("is_listing", default=False)
    load = client.load_markets_helper

    async def listing(*arguments: Any) -> Any:
        is_listing.set(True)  # it runs in a task of its own
        return await load(*arguments)

    def number(value: str | float) -> float:
        return float(value) if is_listing.get() else ExactNumber(value)

    client.number, client.safe_float, client.load_markets_helper = number, exact_float, listing


def send_through(client: Any, gateway: ExchangeClient, rest_url: str | None) -> None:
    """Make a client send through a gateway, to ``rest_url`` instead of the exchange if given."""
    cost: ContextVar[float] = ContextVar("cost", default=1.0)

    async def note(price: float | None = None) -> None:
        cost.set(1.0 if price is None else price)

    async def fetch(
        url: str, method: str = "GET", headers: Any = None, body: str | None = None
    ) -> Any:
        if rest_url is not None:
            url = _moved(url, rest_url)
        sent, answers = _headers(client, headers), Parser()
        request = Request(
            path=urlsplit(url).path or "/",
            cost=units(cost.get()),
            read=lambda answer, _at_ns: _readable(answer, answers),
            part=UNITS,
            raw=RawRequest(url, method, sent, body.encode() if body else None),
            refusal=judge_of(client, answers, (url, method, sent, body)),
        )
        return await gateway.fetch(request)

    client.throttle, client.fetch = note, fetch


def move_streams(client: Any, stream_url: str) -> None:
    """Make a client open its streams at another address than the exchange's."""
    client.urls["api"] = _moved_streams(client.urls.get("api"), stream_url)


def _headers(client: Any, headers: Mapping[str, str] | None) -> dict[str, str]:
    """The headers of a request; ``User-Agent`` only where ccxt imitates another program."""
    agent = client.userAgent
    pretended = {"User-Agent": agent} if isinstance(agent, str) else agent or {}
    return {**(headers or {}), **client.headers, **pretended}


def _readable(answer: bytes, answers: Parser) -> Any:
    found = answers.parse(answer)
    return answer.decode(errors="replace") if found is None else found


def _moved_streams(urls: Any, stream_url: str) -> Any:
    if isinstance(urls, Mapping):
        return {key: _moved_streams(below, stream_url) for key, below in urls.items()}
    is_stream = isinstance(urls, str) and urls.startswith(("ws://", "wss://"))
    return _moved(urls, stream_url) if is_stream else urls


def _moved(url: str, base: str) -> str:
    """The same path and query at another host."""
    found = urlsplit(url)
    query = f"?{found.query}" if found.query else ""
    return f"{base.rstrip('/')}{found.path}{query}"


def _only_spot(options: dict[str, Any]) -> None:
    """Exclude derivatives from market listings, where ccxt has an option for it."""
    options["defaultType"] = "spot"
    chosen = options.get("fetchMarkets")
    if not isinstance(chosen, dict):
        return
    kinds = chosen.get("types")
    if isinstance(kinds, list) and "spot" in kinds:
        options["fetchMarkets"] = {**chosen, "types": ["spot"]}
    elif isinstance(kinds, dict) and "spot" in kinds:
        options["fetchMarkets"] = {**chosen, "types": {**_off(kinds), "spot": True}}


def _off(kinds: Any) -> Any:
    """The same options, all set to False."""
    return {key: _off(each) for key, each in kinds.items()} if isinstance(kinds, dict) else False


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or name, "ccxt") from error
