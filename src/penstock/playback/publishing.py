"""Publishes replayed records under their topics, in a slot of their own.

Publishers never wait for subscribers and drop what does not fit. A replay can wait, so what a
publisher dropped, or had no receiver for yet, is published again: subscribers ignore a number that
they have received before.
"""

import secrets
from collections import Counter
from collections.abc import Sequence

from penstock.clock import Clock
from penstock.errors import BusUnreachable, PenstockError
from penstock.publish import Message, PublishedCounts, PublishedSlot
from penstock.publish.by_url import PreparedPublisher
from penstock.runtime.publishers import Publishers
from penstock.storage.log import Received
from penstock.telemetry import Listener, quiet

_AT_ONCE = 200
"""Messages of one call, so that only few are repeated if some are dropped."""
_RETRY_S = 0.02
_UNHEARD_S = 10.0
_DROPPED_S = 60.0


class ReplayPublisher:
    """Publishes a replay; for one event loop. Close it in the end."""

    def __init__(
        self, prepared: Sequence[PreparedPublisher], clock: Clock, listener: Listener = quiet
    ) -> None:
        self.slot = f"replay-{secrets.token_hex(3)}"
        """Unique, so that the numbers of this replay are not taken for those of another."""
        self._clock, self._numbers = clock, Counter[str]()
        source = PublishedSlot(
            slot=self.slot,
            log_id=secrets.randbits(63),
            numbers={},
            clock=clock,
            listener=listener,
        )
        self._publishers = Publishers(prepared, source, capacity=10 * _AT_ONCE)

    async def publish(self, records: Sequence[Received]) -> None:
        """Publish records; wait as long as a publisher has no room for them.

        Raises:
            BusUnreachable: there is no receiver, such as the broker of the bus.
            PenstockError: a publisher drops them for a minute.
        """
        for first in range(0, len(records), _AT_ONCE):
            await self._send([self._numbered(each) for each in records[first : first + _AT_ONCE]])

    def _numbered(self, each: Received) -> Message:
        self._numbers[each.topic] += 1
        return Message(each.topic, self.slot, self._numbers[each.topic], each.record)

    async def _send(self, messages: list[Message]) -> None:
        began_ns = self._clock.monotonic_ns()
        while True:
            before = self._publishers.total()
            self._publishers.publish(messages)
            # A publisher in a thread of its own counts what it drops for lack of room at once.
            after = self._publishers.total()
            if after.unheard == before.unheard and after.dropped == before.dropped:
                await self._clock.sleep(0)
                return
            self._give_up_after((self._clock.monotonic_ns() - began_ns) / 1e9, before, after)
            await self._clock.sleep(_RETRY_S)

    def _give_up_after(
        self, waited_s: float, before: PublishedCounts, after: PublishedCounts
    ) -> None:
        if after.unheard > before.unheard and waited_s > _UNHEARD_S:
            raise BusUnreachable(", ".join(self._publishers.counts()))
        if waited_s > _DROPPED_S:
            raise PenstockError("A publisher drops every message. See its log, and try again.")

    def close(self) -> None:
        self._publishers.close()
