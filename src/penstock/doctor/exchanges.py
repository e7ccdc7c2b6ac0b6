"""Checks of each exchange: whether it can be reached, by TLS, and what its clock says.

One cheap request is sent to each, charged to the budget that all processes share: none while the
exchange has ordered a stop, or while little of a limit is left.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from statistics import median
from urllib.parse import SplitResult, urlsplit

from msgspec.structs import replace

from penstock.config import Settings
from penstock.connectors.gateways import FleetGateways
from penstock.doctor.fleet import headroom
from penstock.doctor.model import Finding, Subject, ok, problem, warning
from penstock.errors import PenstockError
from penstock.exchanges import registry
from penstock.exchanges.base import Exchange, ExchangeClient
from penstock.exchanges.clients import client_for
from penstock.live import is_there
from penstock.runtime.stores import open_state, state_url
from penstock.throttle.offset import Offset
from penstock.web.hosts import is_local

REQUEST_S = 5.0
_LEAST_HEADROOM = 0.1
_EXPIRES_DAYS = 14
_OFF_MS, _FAR_OFF_MS = 1000.0, 30_000.0


async def check_exchanges(subject: Subject) -> Iterable[Finding]:
    """Whether each exchange answers, and how far this machine's clock is off."""
    if not subject.exchanges:
        words = "none is set up"
        return [warning("exchange", words, "Name some: penstock doctor EXCHANGE…")]
    results = await asyncio.gather(*(_exchange(subject, name) for name in subject.exchanges))
    found = [finding for findings, _ in results for finding in findings]
    offsets = [offset for _, offset in results if offset is not None]
    return [*found, clock_finding(offsets)] if offsets else found


def clock_finding(offsets: list[Offset]) -> Finding:
    """How far this machine's clock is off, by the exchanges' clocks: most of them are right."""
    off_ms = median(each.middle_ms for each in offsets)
    surely_ms = max(abs(off_ms) - max(each.error_ms for each in offsets), 0.0)
    way = "behind" if off_ms > 0 else "ahead of"
    words = f"this machine's clock is {abs(off_ms) / 1000:,.3f} s {way} that of {_count(offsets)}"
    remedy = "Set the clock, and keep it right: timedatectl set-ntp true, or chrony."
    if surely_ms > _FAR_OFF_MS:
        return problem("clock", words, remedy)
    return warning("clock", words, remedy) if surely_ms > _OFF_MS else ok("clock", words)


def _count(offsets: list[Offset]) -> str:
    return "1 exchange" if len(offsets) == 1 else f"{len(offsets)} exchanges"


async def _exchange(subject: Subject, name: str) -> tuple[list[Finding], Offset | None]:
    """What was found about an exchange, and how far its clock is ahead."""
    try:
        exchange = registry.load(name)
        urls = _urls(subject, exchange)
        addresses = [await _address(name, url, subject.clock.now_ms()) for url in urls]
    except PenstockError as error:
        return [problem("exchange", f"{name}: {error}", "See: penstock doctor --help")], None
    if any(each.level == "problem" for each in addresses):
        return addresses, None
    if (left := headroom(subject.fleet, name)) < _LEAST_HEADROOM:
        words = f"{name}: reachable; not queried, as {left:.0%} of its budget is left"
        return [*addresses, ok("exchange", words)], None
    return await _queried(subject, exchange, addresses)


def _urls(subject: Subject, exchange: Exchange) -> list[SplitResult]:
    given = subject.settings.exchanges
    rest = given.rest_urls.get(exchange.name, exchange.rest_url)
    stream = given.stream_urls.get(exchange.name, exchange.stream_url)
    parts = [urlsplit(url) for url in (rest, stream) if url]
    # One address may serve both.
    return list({(each.hostname, each.port): each for each in parts}.values())


async def _address(name: str, url: SplitResult, now_ms: int) -> Finding:
    """Connect to an address, with TLS if it has it; nothing is sent."""
    host, encrypted = url.hostname or "", url.scheme in ("https", "wss")
    port = url.port or (443 if encrypted else 80)
    where, context = f"{name}: {host}:{port}", ssl.create_default_context() if encrypted else None
    try:
        async with asyncio.timeout(REQUEST_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLCertVerificationError as error:
        remedy = "Check the clock, the certificates of the system, and proxies in between."
        return problem("exchange", f"{where}: TLS fails: {error.verify_message}", remedy)
    except (OSError, TimeoutError) as error:
        words = f"{where} cannot be reached: {_reason(error)}"
        remedy = "Check the network, DNS and firewall; the exchange's status page; its URL."
        return problem("exchange", words, remedy)
    certificate = writer.get_extra_info("peercert") or {}
    writer.close()
    if not encrypted:
        if is_local(host):
            return ok("exchange", f"{where} is reachable, without TLS on this machine")
        return warning("exchange", f"{where} has no TLS", "Use its https:// and wss:// URLs.")
    days = days_left(certificate.get("notAfter", ""), now_ms)
    if days is not None and days < _EXPIRES_DAYS:
        words = f"{where}: its certificate expires in {days} days"
        return warning("exchange", words, "Look for an announcement of the exchange or proxy.")
    return ok("exchange", f"{where} is reachable, with TLS")


def _reason(error: OSError | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {REQUEST_S:g} s"
    return error.strerror or str(error)


def days_left(not_after: str, now_ms: int) -> int | None:
    """In how many days a certificate expires; None if it does not say when."""
    if not not_after:
        return None
    return round(ssl.cert_time_to_seconds(not_after) - now_ms / 1000) // 86_400


@asynccontextmanager
async def _client(
    subject: Subject, exchange: Exchange, settings: Settings
) -> AsyncIterator[ExchangeClient]:
    """A client on the shared budget; on one of its own if nothing is shared yet."""
    if subject.fleet is None or not is_there(state_url(settings)):
        client = client_for(exchange, settings, subject.clock)
        async with aclosing(client):
            yield client
        return
    async with open_state(settings, subject.clock) as store:
        gateways = FleetGateways(store, settings, subject.clock)
        async with aclosing(gateways):
            yield gateways.open(exchange.name)


async def _queried(
    subject: Subject, exchange: Exchange, found: list[Finding]
) -> tuple[list[Finding], Offset | None]:
    """Request the exchange's time, once and without waiting long."""
    hasty = replace(subject.settings.requests, attempts=1, acquire_timeout=REQUEST_S)
    settings = replace(subject.settings, requests=hasty)
    try:
        async with _client(subject, exchange, settings) as client, asyncio.timeout(REQUEST_S):
            return found, await client.measure_clock()
    except (PenstockError, TimeoutError) as error:
        why = f"nothing within {REQUEST_S:g} s" if isinstance(error, TimeoutError) else str(error)
        words = f"{exchange.name} does not answer: {why}"
        remedy = "See the exchange's status page, and: penstock connectors list"
        return [*found, problem("exchange", words, remedy)], None
