"""The daemons that share symbols, each with a lease in the store of live values.

A lease is renewed every 2 seconds and expires after 6. Who stops removes its own at once. While the
store does not answer, the daemons that were known last count; and so they do for 4 seconds after it
has lost its data, within which those that live renew their leases.
"""

import asyncio

import msgspec

from penstock.clock import Clock
from penstock.storage.cache import LiveStore, LiveValue
from penstock.telemetry import Listener, quiet
from penstock.tickers.facts import SymbolsNotRead
from penstock.tickers.partition import Member

SPACE = "members"
RENEW_S, EXPIRY_S = 2.0, 6.0
_RETURN_S = 4.0
_RETRY_S = 0.5
_LATER_MS = 50
"""How long after its expiry a lease is looked for: then it is gone for certain."""

_decode = msgspec.json.Decoder(Member).decode


class Membership:
    """The lease of one daemon, and its view of the others. For one event loop."""

    def __init__(
        self, store: LiveStore, own: Member, clock: Clock, listener: Listener = quiet
    ) -> None:
        self._store, self._own, self._clock, self._emit = store, own, clock, listener
        self.members: tuple[Member, ...] = (own,)
        """All that live, this one included, by id."""
        self.changed = asyncio.Event()
        """Set when ``members`` has changed."""
        self._look_s = RENEW_S
        self._joined = False
        self._all_count_until_ns = 0
        """Until then a daemon without a lease counts too: the store was emptied."""

    async def join(self) -> None:
        """Take the lease, and read those of the others.

        Raises:
            StorageError: the store does not answer.
        """
        if self._joined and await self._store.get(SPACE, self._own.id) is None:
            self._all_count_until_ns = self._clock.monotonic_ns() + round(_RETURN_S * 1e9)
        value = LiveValue(self._own.id, msgspec.json.encode(self._own), round(EXPIRY_S * 1000))
        await self._store.put(SPACE, [value])
        found = await self._store.find(SPACE)
        others = [
            (member, each.ttl_ms - each.age_ms)
            for each in found
            if each.key != self._own.id and (member := _read(each)) is not None
        ]
        self._joined = True
        known = {self._own.id: self._own} | {member.id: member for member, _ in others}
        if self._clock.monotonic_ns() < self._all_count_until_ns:
            known |= {member.id: member for member in self.members if member.id not in known}
        members = tuple(sorted(known.values(), key=lambda member: member.id))
        if members != self.members:
            self.members = members
            self.changed.set()
        # The end of a lease is noticed when it comes, not at the next renewal.
        left_ms = [left_ms + _LATER_MS for _, left_ms in others]
        self._look_s = min([RENEW_S, *(each / 1000 for each in left_ms)])

    async def run(self) -> None:
        """Renew the lease for ever."""
        warned = False
        while True:
            await self._clock.sleep(self._look_s)
            try:
                await self.join()
                warned = False
            except Exception as error:
                # Whatever it is: without a lease, others would collect the same for ever.
                self._look_s = _RETRY_S
                if not warned:
                    self._emit(SymbolsNotRead(daemon=self._own.id, reason=str(error)))
                warned = True

    async def leave(self) -> None:
        """Give the lease up.

        Raises:
            StorageError: the store does not answer; the lease expires by itself.
        """
        await self._store.remove(SPACE, [self._own.id])


def _read(found: LiveValue) -> Member | None:
    """A daemon; None if a newer version wrote it and it cannot be read."""
    try:
        return _decode(found.value)
    except msgspec.DecodeError:
        return None
