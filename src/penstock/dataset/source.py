"""What a dataset reads from: a log, a lake and a state store, each of which may be absent."""

from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass, field

from penstock.clock import Clock
from penstock.coverage.ledger import by_series
from penstock.dataset.elsewhere import unsealed_elsewhere
from penstock.dataset.gaps import Coverage, coverage_row, coverage_rows, missing_of
from penstock.dataset.names import Exchanges, Symbols, find_streams
from penstock.dataset.reading import Places
from penstock.dataset.state import Ledger, StateReader
from penstock.dataset.times import Range
from penstock.market import channels
from penstock.market.symbol import Symbol
from penstock.publish.endpoints import find_log_id
from penstock.storage.log.keys import Stream


@dataclass(frozen=True)
class Source:
    """Where the rows of a dataset are, and what is known about them."""

    places: Places
    state: StateReader | None
    clock: Clock
    _natives: dict[str, dict[str, Symbol]] = field(default_factory=dict)

    def streams(self, without: Collection[str] = ()) -> set[Stream]:
        """All streams that have rows, of channels that this version knows.

        Rows of the channels ``without`` are not read, and none of their streams is returned.
        """
        found: set[Stream] = set()
        if self.places.log is not None:
            with closing(self.places.log.reader()) as reader:
                found.update(reader.streams())
        if self.places.lake is not None:
            found |= self.places.lake.streams(without)
        return {
            each
            for each in found
            if (row := channels.find(each.channel)) is not None and row.name not in without
        }

    def find(
        self,
        names: Collection[str] | None,
        symbols: Symbols,
        exchanges: Exchanges,
        without: Collection[str] = (),
    ) -> list[Stream]:
        """The streams of these channels, or of all, that match; see ``streams``.

        Raises:
            NotCollected: an exchange or a market is in no stream at all.
        """
        return self._find(self.streams(without), names, symbols, exchanges)

    def find_anywhere(
        self, names: Collection[str] | None, symbols: Symbols, exchanges: Exchanges
    ) -> list[Stream]:
        """The same with streams of other logs that have no row in the lake yet.

        Raises:
            NotCollected: an exchange or a market is in no stream at all.
        """
        elsewhere = self.state.streams() if self.state is not None else set()
        return self._find(self.streams() | elsewhere, names, symbols, exchanges)

    def _find(
        self,
        streams: Collection[Stream],
        names: Collection[str] | None,
        symbols: Symbols,
        exchanges: Exchanges,
    ) -> list[Stream]:
        wanted = {each.channel for each in streams} if names is None else names
        return find_streams(streams, wanted, symbols, exchanges, self._natives_of)

    def coverage(self, streams: Collection[Stream] | None = None) -> list[Coverage]:
        """The intervals of these streams, or of all, in order."""
        if self.state is None:
            return self.lake_coverage(streams)
        return _rows(self.state.ledger(), streams)

    def lake_coverage(self, streams: Collection[Stream] | None = None) -> list[Coverage]:
        """The same by the lake's own table."""
        lake = self.places.lake
        stored = lake.coverage() if lake is not None else None
        return [] if stored is None else coverage_rows(stored, streams)

    def missing(self, streams: Iterable[Stream], times: Range) -> list[str]:
        """What is missing of some streams in a range, in words."""
        streams = list(streams)
        found: list[str] = [] if streams else ["nothing of this kind was collected: see streams()"]
        if self.state is None:
            known = self.coverage(streams)
        else:
            ledger = self.state.ledger()
            known = _rows(ledger, streams)
            log_id = self.log_id()
            if self.places.log is None or log_id is not None:
                found += unsealed_elsewhere(ledger, streams, log_id, times)
        rows: dict[tuple[str, str, str], list[Coverage]] = {}
        for row in known:
            rows.setdefault((row.exchange, row.channel, row.symbol), []).append(row)
        for stream in streams:
            name = (stream.exchange, stream.channel, Symbol.parse(stream.symbol).unified)
            found += missing_of(stream, rows.get(name, []), times)
        return found

    def log_id(self) -> int | None:
        """The id of the log; None if there is none, or it has no id."""
        folder = None if self.places.log is None else self.places.log.folder
        return None if folder is None else find_log_id(folder)

    def _natives_of(self, exchange: str) -> dict[str, Symbol]:
        if self.state is None:
            return {}
        if exchange not in self._natives:
            self._natives.update(self.state.natives([exchange]))
        return self._natives[exchange]


def _rows(ledger: Ledger, streams: Collection[Stream] | None) -> list[Coverage]:
    return [
        coverage_row(stream, by, interval)
        for (stream, by), found in by_series(ledger.held, ledger.gaps).items()
        if streams is None or stream in streams
        for interval in found
    ]
