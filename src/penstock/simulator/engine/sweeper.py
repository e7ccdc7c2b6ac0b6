"""Checks every connection ten times a second: pings, timeouts and faults.

One task sends pings, closes connections without a pong or at the end of their lifetime, and injects
the faults that end a connection, so that a thousand connections need no thousand timers. It writes
to the transport and not to the outbox, because pings continue while frames are held back.
"""

from penstock.simulator.engine.engine import Engine
from penstock.simulator.engine.streams import GOING_AWAY, POLICY_VIOLATION, Streams
from penstock.simulator.engine.wire import PING, Client, encode

_CHECK_S = 0.1
_LINGER_MS = 3000  # a client that does not respond to a close frame is then aborted


class Sweeper:
    """Pings connections and closes those that are due."""

    def __init__(self, engine: Engine, streams: Streams) -> None:
        self._engine, self._streams = engine, streams
        self._first_limit = next(
            (rule for rule in engine.limiter.rules if rule.unit in ("weight", "request")), None
        )
        self._upkeep = engine.exchange.upkeep
        # Short ping intervals need more frequent checks.
        every_ms = self._upkeep.ping_every_ms
        self._check_s = _CHECK_S if every_ms is None else min(_CHECK_S, every_ms / 4000)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self._engine.clock.sleep(self._check_s)
            self.sweep()

    def sweep(self) -> None:
        """Check all connections once."""
        now_ms = self._engine.clock.now_ms()
        self._follow_limit(now_ms)
        for client in list(self._streams.open.values()):
            if client.closed_ms is None:
                self._check_client(client, now_ms)
            elif now_ms - client.closed_ms > _LINGER_MS:
                client.transport.abort()

    def _check_client(self, client: Client, now_ms: int) -> None:
        if client.faults is not None:
            self._strike(client, now_ms)
        if client.closed_ms is not None:
            return
        why = self._over(client, now_ms)
        if why is not None:
            client.close(*why, now_ms)
        elif _passed(client.pinged_ms, self._upkeep.ping_every_ms, now_ms):
            payload = str(now_ms).encode()
            client.pinged_ms = now_ms
            client.pings.append((now_ms, payload))
            client.transport.write(encode(payload, PING))

    def _over(self, client: Client, now_ms: int) -> tuple[int, str] | None:
        """The close code and reason of a connection that is due to end, if it is."""
        upkeep = self._upkeep
        if client.leaves_ms is not None and now_ms >= client.leaves_ms:
            return GOING_AWAY, "server shutdown"
        if _passed(client.opened_ms, upkeep.lifetime_ms, now_ms):
            return GOING_AWAY, "lifetime reached"
        if client.pings and _passed(client.pings[0][0], upkeep.pong_within_ms, now_ms):
            return POLICY_VIOLATION, "Pong timeout"
        if not client.subscriber.streams and _passed(
            client.changes[-1].at_ms, upkeep.subscribe_within_ms, now_ms
        ):
            return GOING_AWAY, "no subscription"
        if _passed(client.last_active_ms, upkeep.idle_ms, now_ms):
            return GOING_AWAY, "idle"
        return None

    def _strike(self, client: Client, now_ms: int) -> None:
        faults = client.faults
        assert faults is not None
        due = {kind for kind, at_ms in faults.ends_ms.items() if now_ms >= at_ms}
        if "shutdown" in due and client.leaves_ms is None:
            faults.note("shutdown", now_ms)
            self._streams.give_notice(client, now_ms + faults.grace_ms())
        if "close" in due:
            faults.note("close", now_ms)
            client.abort("closed without a word", now_ms)
        elif "lifetime" in due:
            faults.note("lifetime", now_ms)
            client.close(GOING_AWAY, "lifetime reached", now_ms)

    def _follow_limit(self, now_ms: int) -> None:
        if self._first_limit is None:
            return
        name = self._first_limit.name
        wanted = self._engine.injector.changed_limit(now_ms) or self._first_limit.limit
        now = next(rule.limit for rule in self._engine.limiter.rules if rule.name == name)
        if wanted != now:
            self._engine.limiter.change(name, wanted)
            text = f"limit {now} became {wanted}".encode()
            self._engine.injector.log.write(now_ms, "limit", name, (0, 0), text)


def _passed(since_ms: int, within_ms: int | None, now_ms: int) -> bool:
    return within_ms is not None and now_ms - since_ms >= within_ms
