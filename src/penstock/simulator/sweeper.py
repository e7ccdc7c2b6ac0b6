"""The sweeper: looks at every connection ten times a second and does what is due.

Pings, pongs that did not come, connections that lived long enough, and the faults that end one: all
of it in one task, so that a thousand connections need no thousand timers. It writes to the wire
directly and not through the outbox, because pings go on where frames are held back.
"""

from penstock.simulator.engine import Engine
from penstock.simulator.streams import GOING_AWAY, POLICY_VIOLATION, Streams
from penstock.simulator.wire import PING, Client, encode

_LOOK_S = 0.1
_LINGER_MS = 3000  # a client that does not take its close frame is hung up on


class Sweeper:
    """Keeps connections alive, or ends them."""

    def __init__(self, engine: Engine, streams: Streams) -> None:
        self._engine, self._streams = engine, streams
        self._first_limit = next(
            (rule for rule in engine.admission.rules if rule.unit == "weight"), None
        )
        settings = engine.settings
        self._ping_every_ms = round(settings.ping_every * 1000)
        self._pong_within_ms = round(settings.pong_within * 1000)
        self._lifetime_ms = round(settings.connection_lifetime * 1000)
        # Times shorter than the usual look need a closer one.
        self._look_s = min(_LOOK_S, settings.ping_every / 4)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self._engine.clock.sleep(self._look_s)
            self.sweep()

    def sweep(self) -> None:
        """Do what is due now."""
        now_ms = self._engine.clock.now_ms()
        self._follow_limit(now_ms)
        for client in list(self._streams.open.values()):
            if client.closed_ms is None:
                self._look_after(client, now_ms)
            elif now_ms - client.closed_ms > _LINGER_MS:
                client.transport.abort()

    def _look_after(self, client: Client, now_ms: int) -> None:
        if client.faults is not None:
            self._strike(client, now_ms)
        if client.leaves_ms is not None and now_ms >= client.leaves_ms:
            client.close(GOING_AWAY, "server shutdown", now_ms)
        elif now_ms - client.opened_ms >= self._lifetime_ms:
            client.close(GOING_AWAY, "lifetime reached", now_ms)
        elif client.pings and now_ms - client.pings[0][0] > self._pong_within_ms:
            client.close(POLICY_VIOLATION, "Pong timeout", now_ms)
        elif client.closed_ms is None and now_ms - client.pinged_ms >= self._ping_every_ms:
            payload = str(now_ms).encode()
            client.pinged_ms = now_ms
            client.pings.append((now_ms, payload))
            client.transport.write(encode(payload, PING))

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
        now = next(rule.limit for rule in self._engine.admission.rules if rule.name == name)
        if wanted != now:
            self._engine.admission.change(name, wanted)
            text = f"limit {now} became {wanted}".encode()
            self._engine.injector.log.write(now_ms, "limit", name, (0, 0), text)
