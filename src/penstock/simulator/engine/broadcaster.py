"""Sends the frames of feeds to their clients.

Once per tick, each stream with a subscriber is queried for the frames that are due since the last
tick. They are encoded once, and the same bytes go to every client of a dialect that has no faults.
A client that joins first gets the stream's opening payloads, as of the stream's position, so that
the following frames continue them; the stream waits while a long opening is built. A late tick
loses nothing: it queries a longer range, and event times come from the market. A feed that fails is
counted and logged, and does not affect other streams.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from penstock.clock import Clock
from penstock.simulator.engine.exchange import SimulatedExchange, StreamFeed
from penstock.simulator.engine.sender import TICK_S, Sender
from penstock.simulator.engine.turns import in_turns
from penstock.simulator.engine.wire import ALL_UNREAD_BYTES, UNREAD_BYTES, Client, encode_all
from penstock.telemetry import log_error

_LONGEST_STRETCH_MS = 1000  # the longest range queried at once after a late tick
_TURN_NS = 4_000_000  # after this much work, yield to other tasks


@dataclass
class _Channel:
    feed: StreamFeed
    last_ms: int
    clients: dict[int, Client] = field(default_factory=dict)
    joining: dict[int, Client] = field(default_factory=dict)
    """Clients that have yet to get the opening payloads."""
    failed: bool = False


class Broadcaster(Sender):
    """Moves frames from feeds to outboxes, and from outboxes to transports."""

    def __init__(self, exchange: SimulatedExchange, clock: Clock) -> None:
        super().__init__(exchange, clock)
        # By stream and dialect.
        self._channels: dict[tuple[str, str], _Channel] = {}
        self._held = ("", 0)
        """A pattern of streams, empty for none, and the time at which they stand still."""

    @property
    def streams(self) -> int:
        """The number of streams with a subscriber, counted once per dialect."""
        return len(self._channels)

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            await self._clock.sleep(TICK_S)
            await self.tick()

    def hold(self, where: str) -> int:
        """Let the streams whose names match a pattern stand still; return the time they stop at.

        Those that were held before go on, without the frames that were due meanwhile; with the same
        pattern they stay where they are.
        """
        if where and where == self._held[0]:
            return self._held[1]
        now_ms = self._clock.now_ms()
        for (stream, _), channel in self._channels.items():
            if self._upto_ms(stream, now_ms) < now_ms:
                channel.last_ms = now_ms
        self._held = (where, now_ms)
        return now_ms

    def behind_ms(self) -> int:
        """See ``Sender``: a busy simulator still has to send what was due before."""
        where, held_ms = self._held
        left_ms = [
            held_ms - channel.last_ms
            for (stream, _), channel in self._channels.items()
            if where and fnmatchcase(stream, where)
        ]
        return max(left_ms, default=0)

    def _upto_ms(self, stream: str, now_ms: int) -> int:
        """The time up to which a stream is sent."""
        where, held_ms = self._held
        return min(now_ms, held_ms) if where and fnmatchcase(stream, where) else now_ms

    async def tick(self) -> None:
        """Advance every stream to now, and write all outboxes."""
        now_ms = self._clock.now_ms()
        turn_ns = self._clock.monotonic_ns()
        for (stream, _), channel in list(self._channels.items()):
            if channel.joining:
                await self._let_in(stream, channel, now_ms)
            self._advance(stream, channel, self._upto_ms(stream, now_ms))
            if self._clock.monotonic_ns() - turn_ns > _TURN_NS:
                # Slow feeds must not delay frames that are ready.
                self._release_all(now_ms)
                await self._clock.sleep(0)
                turn_ns = self._clock.monotonic_ns()
        self._release_all(now_ms)
        self._rate()

    def _release_all(self, now_ms: int) -> None:
        unread: dict[int, int] = {}
        for client in list(self._clients.values()):
            self._release(client, now_ms)
            unread[client.id] = client.unread_bytes()
            if unread[client.id] > UNREAD_BYTES:
                self._cut_off(client, now_ms)
        if sum(unread.values()) > ALL_UNREAD_BYTES:
            slowest = self._clients.get(max(unread, key=unread.__getitem__))
            if slowest is not None:
                self._cut_off(slowest, now_ms)

    def _join(self, stream: str, client: Client, *, anew: bool) -> None:
        name = stream, client.subscriber.dialect
        channel = self._channels.get(name)
        if channel is None:
            feed = self._exchange.feed(*name)
            if feed is None:
                return
            channel = self._channels[name] = _Channel(
                feed, self._upto_ms(stream, self._clock.now_ms())
            )
        if anew or client.id not in channel.clients:
            channel.joining[client.id] = client

    def _leave(self, stream: str, client: Client) -> None:
        name = stream, client.subscriber.dialect
        channel = self._channels.get(name)
        if channel is not None:
            channel.clients.pop(client.id, None)
            channel.joining.pop(client.id, None)
            if not (channel.clients or channel.joining):
                del self._channels[name]

    def _advance(self, stream: str, channel: _Channel, now_ms: int) -> None:
        after_ms = channel.last_ms
        channel.last_ms = upto_ms = max(after_ms, min(now_ms, after_ms + _LONGEST_STRETCH_MS))
        # All clients may have left while an opening was built.
        if upto_ms == after_ms or not channel.clients:
            return
        try:
            payloads = channel.feed.frames(after_ms, upto_ms)
            if payloads:
                self._hand_out(stream, payloads, list(channel.clients.values()), now_ms)
        except Exception as error:
            self._note_failure(stream, channel, error)

    async def _let_in(self, stream: str, channel: _Channel, now_ms: int) -> None:
        payloads: list[bytes] = []
        try:
            payloads = await self._opening(channel)
        except Exception as error:
            self._note_failure(stream, channel, error)
        # A client that joined meanwhile gets the same payloads, since the stream has not advanced.
        # A client that left has been removed.
        joining, channel.joining = channel.joining, {}
        channel.clients.update(joining)
        self._hand_out(stream, payloads, list(joining.values()), now_ms)

    async def _opening(self, channel: _Channel) -> list[bytes]:
        if channel.feed.opening is None:
            return []
        opening = channel.feed.opening(channel.last_ms)
        return await in_turns(opening, self._clock) if isinstance(opening, Generator) else opening

    def _note_failure(self, stream: str, channel: _Channel, error: Exception) -> None:
        self.feed_failures += 1
        if not channel.failed:  # log once per stream: it may fail a hundred times a second
            channel.failed = True
            log_error("feed_failed", stream=stream, error=repr(error))

    def _hand_out(
        self, stream: str, payloads: list[bytes], clients: list[Client], now_ms: int
    ) -> None:
        plain: bytes | None = None
        wrapped: bytes | None = None
        count = len(payloads)
        for client in clients:
            if client.faults is not None:
                self._hand_spoiled(stream, payloads, client, now_ms)
                continue
            if client.subscriber.wrapped:
                if wrapped is None:
                    named = [self._exchange.wrap(stream, payload) for payload in payloads]
                    wrapped = encode_all(named, client.opcode)
                client.outbox.append(wrapped)
            else:
                if plain is None:
                    plain = encode_all(payloads, client.opcode)
                client.outbox.append(plain)
            client.frames_sent += count
            self.frames_sent += count

    def _hand_spoiled(
        self, stream: str, payloads: list[bytes], client: Client, now_ms: int
    ) -> None:
        assert client.faults is not None
        for payload in payloads:
            for sent in client.faults.inject(stream, payload, now_ms):
                self.put(client, stream, sent)

    def _release(self, client: Client, now_ms: int) -> None:
        if client.closed_ms is not None:
            self.detach(client)
            return
        if client.faults is not None:
            for due in client.faults.due(now_ms):
                self.put(client, due.stream, due.payload)
            cut_ms = client.faults.ends_ms.get("cut")
            if cut_ms is not None and now_ms >= cut_ms and client.outbox:
                client.faults.note("cut", now_ms, client.cut(now_ms))
                return
        if client.outbox:
            client.last_active_ms = now_ms
            client.flush()

    def _cut_off(self, client: Client, now_ms: int) -> None:
        if client.closed_ms is None:
            self.slow_clients += 1
            client.abort("too slow: too much was left unread", now_ms)
