"""The legs of a shard: its connections, and what they bring, each event once.

Also what may be missing: whenever a stream comes by no leg, a marker is delivered for it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from penstock.market.events import AnyEvent, Cause
from penstock.market.symbol import Symbol
from penstock.streaming.book_sync import BookSync
from penstock.streaming.commands import Command, Subscription
from penstock.streaming.connection import Connection
from penstock.streaming.dedupe import Note, Sieve
from penstock.streaming.dialect import Dialect, KnowsTwins
from penstock.streaming.disconnects import Disconnects
from penstock.streaming.leg import Leg, Plan, Tally
from penstock.streaming.streamed_book import StreamedBook
from penstock.streaming.wanted import Place, Subscriptions


class Legs:
    """Connections that bring the same streams of one exchange, by number."""

    def __init__(
        self,
        exchange: str,
        dialect: Callable[[], Dialect],
        subscriptions: Sequence[Subscription],
        random: Callable[[], float],
        plan: Plan = Plan(),  # noqa: B008 (frozen)
        *,
        keep_levels: bool = True,
    ) -> None:
        self.exchange, self.plan = exchange, plan
        self._dialect, self._random, self._keep_levels = dialect, random, keep_levels
        self.wanted = Subscriptions(subscriptions)
        self.tally = Tally()
        self._commands: list[tuple[int, Command]] = []
        self.legs: dict[int, Leg] = {}
        """All connections there are, by number."""
        self._legs_ever = 0
        self.sieve = Sieve()
        self.lead = self._add_leg()
        """The one whose books count; a live one, if there is any."""

    @property
    def books(self) -> Mapping[Symbol, BookSync | StreamedBook]:
        """The leading leg's."""
        return self.lead.connection.books

    @property
    def waiting(self) -> int:
        """How many events were not taken yet."""
        return len(self.sieve.passed) + len(self.lead.connection.events)

    def take_events(self) -> list[AnyEvent]:
        """What was received since the last call, in order, each once."""
        events, self.sieve.passed = self.sieve.passed, []
        if self.sieve.in_use:
            return events
        arrived = self.lead.connection.take_events()
        return events + arrived if events else arrived

    def take_commands(self) -> list[tuple[int, Command]]:
        """What is to be done since the last call, in order, and by which leg."""
        commands, self._commands = self._commands, []
        return commands

    def _staying(self) -> Iterator[Leg]:
        return (leg for leg in list(self.legs.values()) if not leg.leaving)

    def _live(self) -> list[Leg]:
        return [leg for leg in self.legs.values() if leg.live]

    def _add_leg(self) -> Leg:
        self._legs_ever += 1
        dialect = self._dialect()
        if isinstance(dialect, KnowsTwins):
            self.sieve.key_of = dialect.twin_key
        connection = Connection(
            dialect,
            list(self.wanted),
            self._random,
            backoff=self.plan.reconnect,
            ack_within_s=self.plan.ack_within_s,
            keep_levels=self._keep_levels,
        )
        self.tally.gather(connection)
        connection.books.have_twins(twins=self.sieve.in_use)
        leg = self.legs[self._legs_ever] = Leg(self._legs_ever, connection)
        return leg

    def _have_twins(self, *, twins: bool) -> None:
        """Whether legs may bring copies of what others bring."""
        if twins:
            self.sieve.use()
        else:
            self.sieve.put_away()
        for leg in self.legs.values():
            leg.connection.books.have_twins(twins=twins)

    def _sift(self, leg: Leg, note: Note | None) -> None:
        """Deliver what a leg brought and no other has."""
        events = leg.connection.take_events()
        self.sieve.sift(events, leg.number, note, leads=leg is self.lead)

    def _mark_loss(
        self,
        places: Iterable[Place],
        leg: Leg,
        reason: str,
        at_ns: int,
        cause: Cause = "disconnected",
    ) -> None:
        """Deliver markers for streams that a leg has lost, but for those that come by another."""
        covered = leg.connection.complaints.refused  # which it did not have
        for other in self._live():
            covered |= other.connection.carried() if other is not leg else set()
        lost = Subscriptions.of(place for place in places if place not in covered)
        marks = Disconnects(self.exchange, [(each.channel, each.symbols) for each in lost])
        delivered = self.sieve.passed if self.sieve.in_use else self.lead.connection.events
        delivered += marks.mark(reason, at_ns, leg.heard_ns, cause)
