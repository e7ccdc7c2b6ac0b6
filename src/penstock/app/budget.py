"""The fleet's budget of one exchange, for a program of your own."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from penstock.clock import Clock, SystemClock
from penstock.connectors.gate import SharedGate
from penstock.exchanges import registry
from penstock.storage.state import open_store
from penstock.telemetry import Listener, quiet
from penstock.throttle.gate import Gate

# A wrapper's own timeout says how long a call waits.
_ACQUIRE_TIMEOUT_MS = 86_400_000


@asynccontextmanager
async def open_budget(
    exchange_id: str, url: str, *, clock: Clock | None = None, listener: Listener = quiet
) -> AsyncIterator[Gate]:
    """A gate on the budget that every process on one state store shares.

    ``url`` is that of the state store: ``sqlite:/srv/penstock/state.db``, ``postgresql://…`` or
    ``mongodb://…``. The limits are those of the exchange's connector, or the known ones where
    there is none.

    Raises:
        UnknownExchange: there is none of that name.
        StoreUnreachable, NewerStore: the state cannot be had.
    """
    clock = clock or SystemClock()
    limits = registry.load(exchange_id).limits(clock.now_ms())
    store = await open_store(url, clock=clock)
    try:
        gate = SharedGate(
            store,
            exchange_id,
            limits,
            clock,
            acquire_timeout_ms=_ACQUIRE_TIMEOUT_MS,
            listener=listener,
        )
        async with aclosing(gate):
            yield gate
    finally:
        await store.close()
