"""Live values: the latest value of each key, which expires.

Values are kept in spaces, such as ``ticks``, and are written in batches. Only a newer value
replaces another (``values.replaces``), whichever process writes it. A value is never served once
it is as old as its TTL, counted from when it was received, not from when it was written. All ages
are measured by the store's clock. Nothing here is durable: what matters is in the log or the state
store. No call waits for ever: after its timeout it raises ``StoreUnreachable``.

A backend is one file in this folder, named after its URL scheme.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from penstock.clock import Clock, SystemClock
from penstock.errors import ConfigError, StoreUnreachable, near_matches
from penstock.storage.cache.values import LiveValue, Order, checked, replaces
from penstock.storage.cache.watching import Deliver, Subscription, Watcher
from penstock.storage.timeouts import in_time
from penstock.telemetry import Listener, quiet


class Backend(Protocol):
    """The interface of a database. Every method raises StorageError or a subclass."""

    @property
    def where(self) -> str:
        """The address for messages, without a password."""
        ...

    async def open(self) -> None:
        """Connect, and create what it needs."""
        ...

    async def put(self, space: str, values: Sequence[LiveValue]) -> int:
        """Write values that are newer than those of their keys; return how many were."""
        ...

    async def get(self, space: str, keys: Sequence[str]) -> list[LiveValue | None]:
        """The values of these keys; None for each that has none, or has expired."""
        ...

    async def find(self, space: str) -> list[LiveValue]:
        """All values that have not expired."""
        ...

    async def remove(self, space: str, keys: Sequence[str]) -> None: ...

    async def now_ms(self) -> int: ...

    async def watch(self, space: str, deliver: Deliver) -> None:
        """Deliver all present values and then every change, until cancelled.

        Of several changes of a key, the newest may be delivered alone; removals are not delivered.
        """
        ...

    async def close(self) -> None: ...


class LiveStore:
    """Live values, on any backend. For one event loop."""

    def __init__(
        self, backend: Backend, clock: Clock, timeout_s: float, listener: Listener = quiet
    ) -> None:
        self._backend, self._clock, self._timeout_s = backend, clock, timeout_s
        self._listener = listener
        self._watchers: dict[str, Watcher] = {}

    @property
    def where(self) -> str:
        """The address for messages, without a password."""
        return self._backend.where

    async def put(self, space: str, values: Sequence[LiveValue]) -> int:
        """Write values; return how many were newer than those that were there.

        Values that have expired are not written.

        Raises:
            StoreUnreachable: the store does not answer; part of them may have been written.
            StorageFull: the store has no room.
            ValueError: a value has a number or an age that no store can hold.
        """
        fresh = [value for value in map(checked, values) if not value.expired]
        async with self._in_time():
            return await self._backend.put(space, fresh) if fresh else 0

    async def get(self, space: str, key: str) -> LiveValue | None:
        """The value of a key; None if there is none, or it has expired."""
        [found] = await self.get_many(space, [key])
        return found

    async def get_many(self, space: str, keys: Sequence[str]) -> list[LiveValue | None]:
        """The value of each key; None if there is none, or it has expired."""
        async with self._in_time():
            return await self._backend.get(space, keys)

    async def find(self, space: str) -> list[LiveValue]:
        """All values that have not expired, by key."""
        async with self._in_time():
            return sorted(await self._backend.find(space), key=lambda value: value.key)

    async def remove(self, space: str, keys: Sequence[str]) -> None:
        """Remove values before they expire."""
        async with self._in_time():
            if keys:
                await self._backend.remove(space, keys)

    async def now_ms(self) -> int:
        """The store's time; only differences are meaningful."""
        async with self._in_time():
            return await self._backend.now_ms()

    @asynccontextmanager
    async def changes(self, space: str) -> AsyncIterator[Subscription]:
        """Subscribe to a space: its present values, and then every change.

        Each key is delivered with its newest value, never with an older one than before. While the
        store does not answer nothing is delivered; then all present values are, again.
        """
        if space not in self._watchers:
            watch = partial(self._backend.watch, space)
            self._watchers[space] = Watcher(self.where, space, watch, self._clock, self._listener)
        watcher = self._watchers[space]
        subscription = watcher.add()
        try:
            yield subscription
        finally:
            await watcher.remove(subscription)

    async def close(self) -> None:
        """Close the store. Readers of subscriptions get ``StoreUnreachable``."""
        for watcher in self._watchers.values():
            await watcher.close(StoreUnreachable(self.where, "was closed by this process"))
        await self._backend.close()

    def _in_time(self) -> AbstractAsyncContextManager[None]:
        return in_time(self.where, self._timeout_s)


class _Module(Protocol):
    def open_url(self, url: str, clock: Clock, timeout_s: float) -> Backend: ...


# Files of this folder that are not backends.
_SHARED = {"facts", "redis_failures", "redis_scripts", "redis_urls", "values", "watching"}
_OTHER_SCHEMES = {"rediss": "redis"}


async def open_live_store(
    url: str, *, clock: Clock | None = None, timeout_s: float = 2.0, listener: Listener = quiet
) -> LiveStore:
    """Open the store of live values at a URL.

    ``sqlite:FILE`` is for the processes of one machine, ``redis://…`` for several machines,
    ``memory:`` for one process.

    Raises:
        ConfigError: no backend has that scheme, or it cannot parse the rest.
        MissingExtra: the backend needs a library that is not installed.
        StoreUnreachable: it does not answer.
        LoginRejected: it does not accept the name or the password.
    """
    clock = clock or SystemClock()
    scheme, separator, _ = url.partition(":")
    name = scheme.partition("+")[0]
    schemes = {module.name for module in iter_modules(__path__)} - _SHARED
    name = _OTHER_SCHEMES.get(name, name)
    if not separator or name not in schemes:
        known = sorted({*schemes, *_OTHER_SCHEMES}, reverse=True)
        near = [f"{each}:" for each in near_matches(scheme, known)]
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise ConfigError(
            scheme if separator else "live URL",
            problem=f"is no kind of store for live values.{meant}"
            f" Its URL begins with {' or '.join(f'{each}:' for each in known)}.",
            origin="live URL",
        )
    module = cast("_Module", import_module(f"{__name__}.{name}"))
    backend = module.open_url(url, clock, timeout_s)
    try:
        async with in_time(backend.where, timeout_s):
            await backend.open()
    except BaseException:
        await backend.close()
        raise
    return LiveStore(backend, clock, timeout_s, listener)


__all__ = ["Backend", "LiveStore", "LiveValue", "Order", "open_live_store", "replaces"]
