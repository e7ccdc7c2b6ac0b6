"""Opens the shared budget of one exchange, for your own programs."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from penstock.clock import Clock, SystemClock
from penstock.connectors.gate import SharedGate
from penstock.exchanges import registry
from penstock.storage.state import open_store
from penstock.telemetry import Listener, quiet
from penstock.throttle.gate import Gate

# The caller's own timeout determines how long a call waits.
_ACQUIRE_TIMEOUT_MS = 86_400_000


@asynccontextmanager
async def open_budget(
    exchange_id: str, url: str, *, clock: Clock | None = None, listener: Listener = quiet
) -> AsyncIterator[Gate]:
    """Open a gate on the budget that all processes with the same state store share.

    ``url`` is that of the state store: ``sqlite:/srv/penstock/state.db``, ``postgresql://…`` or
    ``mongodb://…``. The limits are those of the exchange's connector, or the built-in ones if there
    is none.

    Raises:
        UnknownExchange: there is no exchange of that name.
        StoreUnreachable, NewerStore: the state store cannot be opened.
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
