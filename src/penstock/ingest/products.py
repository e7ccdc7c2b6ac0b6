"""The jobs of ``penstock ingest``: one for each product, continued if there is one already.

``find_products`` changes nothing, so that bad input and unfinished jobs of other ranges are
reported before a job is created.
"""

import os
import platform
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import fields

from penstock.errors import AlreadyExists, BadJob
from penstock.exchanges import registry
from penstock.ingest.admin import FleetAdmin, check_timeframe
from penstock.ingest.candle_jobs import OHLCV_BACKFILL
from penstock.ingest.kinds.trades_backfill import TradesBackfill
from penstock.ingest.trade_bounds import is_dense
from penstock.ingest.trade_range import TradesCursor
from penstock.ingest.trades import check_fetched_by_id
from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, Job, NewJob
from penstock.jobs.product_locks import held_locks, key_of, locked
from penstock.jobs.validation import admitted
from penstock.market.channels import TRADES
from penstock.market.symbol import Symbol
from penstock.storage.state import StateStore

_MOST = 1000
"""Jobs of one product that are looked at."""


class IngestRange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """From a time or an id to another; without a start from the first trade, without an end to the
    newest one when the job first runs."""

    since_ms: int | None = None
    until_ms: int | None = None
    """The end, not included."""
    from_id: int | None = None
    to_id: int | None = None


class IngestRequest(NamedTuple):
    """What a user asks for."""

    exchange: str
    symbols: Sequence[str]
    """In any spelling."""
    range: IngestRange
    timeframes: Sequence[str] = ()
    """Candles of these lengths; trades if there are none."""


class Product(NamedTuple):
    """A market, or its candles of one length, and its job."""

    new: NewJob
    """The job to create if there is none."""
    native: str
    """The exchange's name of the market."""
    job: Job | None = None
    """The job that fetches, or has fetched, this range."""
    other: Job | None = None
    """An unfinished job that fetches another range."""

    @property
    def is_done(self) -> bool:
        """Whether the range was fetched before."""
        return self.job is not None and self.job.state == "success"


def check_range(asked: IngestRange, now_ms: int) -> None:
    """Check that a range has begun.

    Raises:
        BadJob: it is in the future.
    """
    for name, at_ms in (("--from", asked.since_ms), ("--to", asked.until_ms)):
        if at_ms is not None and at_ms > now_ms:
            rest = "; leave it out to fetch up to now" if name == "--to" else ""
            raise BadJob(name, f"it is in the future{rest}")


async def find_products(admin: FleetAdmin, request: IngestRequest) -> list[Product]:
    """Look up the markets and their jobs. Nothing is changed.

    Raises:
        UnknownExchange, UnknownSymbol, UnknownInterval: with near matches.
        BadJob: the range is invalid, or the exchange cannot be asked for it.
        ExchangeError, ExchangeUnreachable: there is no listing, and it cannot be fetched now.
    """
    exchange = registry.load(request.exchange)
    for timeframe in request.timeframes:
        check_timeframe(exchange, timeframe)
    if not request.timeframes:
        check_fetched_by_id(exchange, TRADES.name)
    listing = await admin.listings.of(request.exchange)
    symbols = dict.fromkeys(map(listing.find, request.symbols))
    return [
        await _product(admin, _new_job(request, symbol, timeframe), listing.native(symbol))
        for symbol in symbols
        for timeframe in request.timeframes or (None,)
    ]


def _new_job(request: IngestRequest, symbol: Symbol, timeframe: str | None) -> NewJob:
    wanted = request.range
    cursor: dict[str, Any] = {"since_ms": wanted.since_ms, "until_ms": wanted.until_ms}
    if timeframe is None:
        cursor |= {"from_id": wanted.from_id, "to_id": wanted.to_id}
    return NewJob(
        exchange_id=request.exchange,
        type=TradesBackfill.name if timeframe is None else OHLCV_BACKFILL,
        symbol=symbol.unified,
        timeframe=timeframe,
        cursor=cursor,
    )


async def _product(admin: FleetAdmin, new: NewJob, native: str) -> Product:
    service = admin.job_service
    wanted = admitted(new, service.kinds, job_id="", now_ms=0)
    which = {
        "exchange_id": wanted.exchange_id,
        "type": wanted.type,
        "symbol": wanted.symbol,
        "timeframe": wanted.timeframe,
    }
    other: Job | None = None
    for job in await service.find(**which, limit=_MOST):
        if _is_same(job, wanted):
            return Product(new, native, job)
        other = job
    done = [job for job in await service.ended(0, _MOST, **which) if _is_same(job, wanted)]
    return Product(new, native, done[-1] if done and other is None else None, other)


def _is_same(job: Job, wanted: Job) -> bool:
    if job.target_key != wanted.target_key:
        return False
    # The target of candles has no range.
    return job.asked is None or _ends_of(job.asked) == _ends_of(wanted.asked or {})


def _ends_of(cursor: dict[str, Any]) -> list[Any]:
    return [cursor.get(field.name) for field in fields(IngestRange)]


def left_of(product: Product) -> TradesCursor | None:
    """What is left to fetch of a product's range; None if nothing is."""
    job, asked = product.job, product.new.cursor
    if job is None or not job.is_known:
        return TradesCursor(**asked)
    if product.is_done:
        return None
    if isinstance(job.cursor, Cursor):
        return TradesCursor(since_ms=job.cursor.since_ms, until_ms=job.cursor.until_ms)
    if not job.cursor.is_resolved:
        return TradesCursor(**asked)
    exchange = registry.load(job.exchange_id)
    goes_back = exchange.trade_pages == "before_id" and not is_dense(exchange)
    left = job.cursor.left(goes_back=goes_back)
    return TradesCursor(from_id=left.first, to_id=left.last) if left.size else None


async def check_locks(products: Sequence[Product], store: StateStore) -> None:
    """Check that no other job fetches the trades of one of the products.

    Raises:
        ProductLocked: with its holder, since when and until when.
    """
    held = {lock.id: lock for lock in await held_locks(store)}
    for product in products:
        lock = held.get(key_of(product.new.exchange_id, product.native))
        job_id = product.job.id if product.job is not None else ""
        if lock is not None and product.new.timeframe is None and lock.job_id != job_id:
            raise locked(lock)


async def start_job(admin: FleetAdmin, leases: Leases, product: Product) -> Job:
    """Create the job of a product, or make the one that exists due; one that is done stays so.

    Raises:
        AlreadyExists: another process has just created one for another range.
    """
    service, job = admin.job_service, product.job
    if job is None:
        await admin.connectors.ensure_connector(product.new.exchange_id)
        try:
            return await service.create(product.new)
        except AlreadyExists as error:
            job = await service.get(error.existing_id)
            if not _is_same(job, admitted(product.new, service.kinds, "", 0)):
                raise
    if product.is_done:
        return job
    if job.state == "running" and _has_died(job.lock.locked_by or ""):
        now_ms = await service.store.now_ms()
        job = await leases.release(job, now_ms, "its process was killed") or job
    if job.status == "active" and job.state in ("running", "queued", "waiting_rate_limit"):
        return job
    return await service.run(job.id)


def _has_died(holder: str) -> bool:
    """Whether the process that holds a job was one of this machine, and does not run any more.

    If it does run, on a machine of the same name, its next write is rejected by the fence.
    """
    host, _, rest = holder.partition("/")
    pid = rest.rpartition("/")[2]
    if host != platform.node() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False
