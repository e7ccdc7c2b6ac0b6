"""Live values in memory, for one process and for tests: the contract with nothing added."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from penstock.clock import Clock
from penstock.errors import ConfigError
from penstock.storage.cache.values import LiveValue, replaces
from penstock.storage.cache.watching import Deliver

_SWEEP_MS = 60_000


def open_url(url: str, clock: Clock, timeout_s: float) -> "MemoryBackend":  # noqa: ARG001
    """An empty store; ``memory:`` is the whole URL."""
    if url != "memory:":
        raise ConfigError(url, problem="a store in memory has no path.", origin="live URL")
    return MemoryBackend(clock)


class MemoryBackend:
    """Values that exist as long as this object. No await inside a step, hence no lock."""

    where = "memory:"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # A value as it was at time 0 of the monotonic clock: its age is less than zero.
        self._spaces = defaultdict[str, dict[str, LiveValue]](dict)
        self._swept_ms = self._now_ms()
        self._watching = defaultdict[str, list[Deliver]](list)

    async def open(self) -> None:
        """Nothing to do."""

    async def put(self, space: str, values: Sequence[LiveValue]) -> int:
        there, now_ms = self._spaces[space], self._now_ms()
        if now_ms - self._swept_ms >= _SWEEP_MS:
            self._sweep(now_ms)
        written = list[LiveValue]()
        for value in values:
            known = self._found(space, value.key)
            if known is None or replaces(value.order, known.order):
                there[value.key] = value.aged(-now_ms)
                written.append(value)
        for deliver in self._watching[space]:
            deliver(written)
        return len(written)

    async def get(self, space: str, keys: Sequence[str]) -> list[LiveValue | None]:
        return [self._found(space, key) for key in keys]

    async def find(self, space: str) -> list[LiveValue]:
        found = (self._found(space, key) for key in self._spaces[space])
        return [value for value in found if value is not None]

    def _found(self, space: str, key: str) -> LiveValue | None:
        known = self._spaces[space].get(key)
        if known is None or (now := known.aged(self._now_ms())).expired:
            return None
        return now

    async def remove(self, space: str, keys: Sequence[str]) -> None:
        for key in keys:
            self._spaces[space].pop(key, None)

    async def now_ms(self) -> int:
        return self._now_ms()

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000

    async def watch(self, space: str, deliver: Deliver) -> None:
        deliver(await self.find(space))
        self._watching[space].append(deliver)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._watching[space].remove(deliver)

    async def close(self) -> None:
        self._spaces.clear()

    def _sweep(self, now_ms: int) -> None:
        self._swept_ms = now_ms
        for there in self._spaces.values():
            for key in [key for key, value in there.items() if value.aged(now_ms).expired]:
                del there[key]
