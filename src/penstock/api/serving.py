"""Serving: everything the API is made of, put together and listening."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from penstock.api.application import build_application
from penstock.api.doors import rules_of
from penstock.api.parts import Parts
from penstock.api.server import ApiServer
from penstock.clock import Clock
from penstock.config import Api
from penstock.ingest.requests import Intake
from penstock.stats.metrics import Metrics
from penstock.telemetry import Listener, tell_all


@asynccontextmanager
async def serving(
    settings: Api,
    open_intake: Callable[[Listener], AbstractAsyncContextManager[Intake]],
    clock: Clock,
    listener: Listener,
    holder_of: Callable[[int], str | None],
) -> AsyncIterator[ApiServer]:
    """The API on an intake that is opened for it, until the block is left.

    Raises:
        ConfigError: others than this machine would be let in without a token.
        PortInUse: another program listens there.
    """
    rules, metrics = rules_of(settings), Metrics(of_fleet=True)
    heard = tell_all([metrics, listener])
    async with open_intake(heard) as intake:
        parts = Parts(intake, metrics, clock)
        server = ApiServer(build_application(parts, rules, heard), settings, holder_of)
        await server.start()
        try:
            yield server
        finally:
            parts.closing.set()
            await server.stop()
