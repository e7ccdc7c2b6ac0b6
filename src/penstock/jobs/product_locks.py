"""Product locks: one job run at a time fetches the history of a product, a market of an exchange.

A lock is a lease in the state store, renewed in the background. Each time it is taken its token
increases, and its holder compares the token with the store's before it records anything.

A lock is free if it was released, if it was not renewed for its TTL, or if the job run that took it
has ended: the lease of its job tells. So a worker that was killed blocks a product no longer than
its job. A former holder that still runs finds another token, and stops.
"""

import asyncio
import os
import platform
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NoReturn, TypeVar

from msgspec import Struct, convert

from penstock.clock import Clock
from penstock.errors import LockLost, NotLocked, ProductLocked, StorageError
from penstock.jobs.model import Job
from penstock.jobs.run import NS_PER_MS
from penstock.storage.state import Document, Patch, StateStore, Write
from penstock.storage.state.documents import Add, Condition, StoreNow, field_of
from penstock.storage.state.schema import JOBS, LOCKS

TTL_MS = 2 * 3_600_000
# A lock is renewed after the TTL divided by this; if the store does not answer, sooner again.
_RENEWALS = 6
_RETRIES = 120
_MOST_LISTED = 1000
_FREE: Patch = {"holder": "", "job_id": "", "job_fence": 0, "since": 0, "until": 0}
T = TypeVar("T")


class ProductLock(Struct, frozen=True, kw_only=True):
    """A lock as it is stored. Times are the store's."""

    id: str
    """The key: ``product:EXCHANGE:MARKET``."""
    holder: str
    """The host, slot and process id of the worker; empty if nobody holds it."""
    job_id: str
    job_fence: int
    """The fence of the job's claim: a job with another one is not run by this holder any more."""
    since: int
    until: int
    """When it is free unless it is renewed."""
    token: int
    """Incremented each time it is taken or released."""


def key_of(exchange_id: str, product: str) -> str:
    """The key of a product's lock; the product is named as the exchange does."""
    return f"product:{exchange_id}:{product}"


class HeldLock:
    """A lock that this process has taken, and may have lost since."""

    def __init__(self, store: StateStore, clock: Clock, ttl_ms: int, token: int, key: str) -> None:
        self._store, self._clock, self._ttl_ms = store, clock, ttl_ms
        self._key, self._token = key, token
        self._good_until_ns = 0

    def renewed(self, asked_ns: int) -> None:
        """Set its end after the store renewed it, as requested at a monotonic time."""
        self._good_until_ns = asked_ns + self._ttl_ms * NS_PER_MS

    async def check(self) -> None:
        """Check that it is still held. To be called before anything is recorded.

        Raises:
            LockLost: it is not.
            StorageError: the store does not answer, so it is not known.
        """
        found = await self._store.get(LOCKS, self._key)
        if found is None or found["token"] != self._token:
            raise LockLost(self._key, _taken_by(found))
        if self._left_s() <= 0:
            raise LockLost(self._key, "it could not be renewed in time")

    async def renew(self) -> NoReturn:
        """Renew it until it is lost.

        Raises:
            LockLost: always.
        """
        wait_s = self._ttl_ms / 1000 / _RENEWALS
        while True:
            await self._clock.sleep(min(wait_s, self._left_s()))
            asked_ns = self._clock.monotonic_ns()
            if self._left_s() <= 0:
                raise LockLost(self._key, "it could not be renewed in time")
            try:
                if not await self._write({"until": StoreNow(self._ttl_ms)}):
                    raise LockLost(self._key, _taken_by(await self._store.get(LOCKS, self._key)))
            except StorageError:
                wait_s = self._ttl_ms / 1000 / _RETRIES
                continue
            self.renewed(asked_ns)
            wait_s = self._ttl_ms / 1000 / _RENEWALS

    async def release(self) -> None:
        """Free it, unless it was lost.

        Raises:
            StorageError: the store does not answer. It is free when its job run has ended.
        """
        await self._write({**_FREE, "token": Add(1)})

    async def _write(self, patch: Patch) -> bool:
        (written,) = await self._store.write(
            LOCKS, [Write(self._key, {"token": self._token}, patch)]
        )
        return written is not None

    def _left_s(self) -> float:
        return (self._good_until_ns - self._clock.monotonic_ns()) / 1_000_000_000


class ProductLocks:
    """The product locks of a store."""

    def __init__(self, store: StateStore, clock: Clock, ttl_ms: int = TTL_MS) -> None:
        self._store, self._clock, self._ttl_ms = store, clock, ttl_ms

    async def run(self, key: str, job: Job, work: Callable[[HeldLock], Awaitable[T]]) -> T:
        """Take a lock for a job that this process holds, work, and release it.

        The work is cancelled when the lock is lost.

        Raises:
            ProductLocked: another job run holds it. Nothing was done.
            LockLost: it was lost meanwhile.
        """
        lock = await self.take(key, job)
        working = asyncio.ensure_future(work(lock))
        renewing = asyncio.create_task(lock.renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else renewing.result()
        finally:
            working.cancel()
            renewing.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
            with suppress(StorageError):
                await lock.release()

    async def take(self, key: str, job: Job) -> HeldLock:
        """Take a lock for a job that this process holds.

        Raises:
            ProductLocked: another job run holds it.
        """
        holder = job.lock.locked_by or f"{platform.node()}/{os.getpid()}"
        patch = {
            "holder": holder,
            "job_id": job.id,
            "job_fence": job.fence,
            "since": StoreNow(),
            "until": StoreNow(self._ttl_ms),
            "token": Add(1),
        }
        while True:
            lock = await self._stored(key)
            # This process holds the job, so an earlier run of the same job has ended.
            if lock.job_id != job.id and await _is_held(self._store, lock):
                raise locked(lock)
            asked_ns = self._clock.monotonic_ns()
            write = Write(key, {"token": lock.token}, patch)
            (taken,) = await self._store.write(LOCKS, [write])
            if taken is not None:
                held = HeldLock(self._store, self._clock, self._ttl_ms, taken["token"], key)
                held.renewed(asked_ns)
                return held

    async def _stored(self, key: str) -> ProductLock:
        found = await self._store.get(LOCKS, key)
        if found is None:
            inserted = await self._store.insert_if_absent(LOCKS, {"id": key, **_FREE, "token": 0})
            found = inserted.document
        return _lock_of(found)


async def held_locks(store: StateStore) -> list[ProductLock]:
    """The locks that are held, by key."""
    taken = [[Condition("until", ">", StoreNow())]]
    found = await store.find(LOCKS, taken, ("id",), _MOST_LISTED)
    locks = [_lock_of(document) for document in found]
    return [lock for lock in locks if await _is_held(store, lock)]


async def release_lock(store: StateStore, key: str) -> ProductLock:
    """Free a lock, whoever holds it, and return it as it was.

    The holder's run stops before it records anything more.

    Raises:
        NotLocked: nobody holds it.
    """
    before: ProductLock | None = None

    def change(found: Document) -> Document | None:
        nonlocal before
        before = _lock_of(found)
        return {**found, **_FREE, "token": found["token"] + 1} if found["holder"] else None

    if await store.update(LOCKS, key, change) is None or before is None:
        raise NotLocked(key)
    return before


async def _is_held(store: StateStore, lock: ProductLock) -> bool:
    now_ms = await store.now_ms()
    if lock.until <= now_ms:
        return False
    job = await store.get(JOBS, lock.job_id)
    if job is None:
        return True
    lease_until = field_of(job, "lock.lock_until") or 0
    return bool(job["fence"] == lock.job_fence and lease_until > now_ms)


def locked(lock: ProductLock) -> ProductLocked:
    """The error that tells who holds a lock."""
    return ProductLocked(
        lock.id, lock.holder, lock.job_id, since_ms=lock.since, until_ms=lock.until
    )


def _lock_of(document: Document) -> ProductLock:
    return convert(document, ProductLock)


def _taken_by(found: Document | None) -> str:
    holder = found and found["holder"]
    return f"{holder} took it" if holder else "it was released"
