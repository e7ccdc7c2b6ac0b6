"""What every sender of frames has: its clients, their streams, and how many frames they get."""

from abc import ABC, abstractmethod

from penstock.clock import Clock
from penstock.simulator.engine.exchange import SimulatedExchange
from penstock.simulator.engine.wire import Client

TICK_S = 0.01
_RATED_NS = 1_000_000_000


class Sender(ABC):
    """Sends clients the frames of the streams that they are subscribed to."""

    def __init__(self, exchange: SimulatedExchange, clock: Clock) -> None:
        self._exchange, self._clock = exchange, clock
        self._clients: dict[int, Client] = {}
        self._rated = (clock.monotonic_ns(), 0)
        self.frames_sent = self.frames_per_s = self.feed_failures = self.slow_clients = 0

    @property
    @abstractmethod
    def streams(self) -> int:
        """The number of streams with a subscriber."""

    @abstractmethod
    async def run(self) -> None:
        """Send until cancelled."""

    @abstractmethod
    def _join(self, stream: str, client: Client, *, anew: bool) -> None:
        """Send a stream to a client; ``anew``: it has subscribed to it since the last call."""

    @abstractmethod
    def _leave(self, stream: str, client: Client) -> None:
        """Send a stream no longer to a client."""

    def attach(self, client: Client) -> None:
        """Start sending a client its subscribed streams."""
        self._clients[client.id] = client
        self.resubscribe(client, ())

    def detach(self, client: Client) -> None:
        """Stop sending to a client."""
        self._clients.pop(client.id, None)
        for stream in client.subscriber.streams:
            self._leave(stream, client)

    def resubscribe(self, client: Client, before: tuple[str, ...]) -> None:
        """Apply a change of a client's streams from ``before`` to the current ones."""
        streams, renewed = client.subscriber.streams, client.subscriber.renewed
        for stream in before:
            if stream not in streams:
                self._leave(stream, client)
        for stream in streams:
            self._join(stream, client, anew=stream not in before or stream in renewed)
        renewed.clear()

    def hold(self, _where: str) -> int | None:
        """Send nothing more of some streams; None if this sender cannot do that."""
        return None

    def behind_ms(self) -> int:
        """How far the streams that were told to stand still are from there."""
        return 0

    def put(self, client: Client, stream: str, payload: bytes) -> None:
        """Send one client a frame of a stream, with the next tick."""
        wrapped = client.subscriber.wrapped
        client.put(self._exchange.wrap(stream, payload) if wrapped else payload)
        self.frames_sent += 1

    def _rate(self) -> None:
        """Compute the frames per second, once a second."""
        since_ns, before = self._rated
        passed_ns = self._clock.monotonic_ns() - since_ns
        if passed_ns >= _RATED_NS:
            self.frames_per_s = (self.frames_sent - before) * 1_000_000_000 // passed_ns
            self._rated = (since_ns + passed_ns, self.frames_sent)
