"""Reads trades of the log backwards from a time, as far as candles need them."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from penstock.errors import NotOurRecord
from penstock.market.codec import json_of
from penstock.monitor.candle_series import Traded
from penstock.storage.log import EVERYTHING, LogReader, Span
from penstock.storage.log.keys import SECOND_NS, Stream

_CHUNK = 512
_SLACK_NS = 5 * SECOND_NS
"""How far the times of trades may go back while their ids rise."""

_decode = msgspec.json.Decoder(list[Traded]).decode
_decode_one = msgspec.json.Decoder(Traded).decode


class TradeReading:
    """The trades of a stream that happened in [since, until), those with the highest ids first.

    They are read in chunks, at most so many in all: a chart that is computed from them needs the
    memory of one chunk. It is assumed that ids rise with time, but for five seconds. Damaged
    records are left out.
    """

    def __init__(
        self,
        reader: LogReader,
        stream: Stream,
        since_ns: int,
        until_ns: int | None = None,
        *,
        most: int,
    ) -> None:
        self._reader, self._stream = reader, stream
        self._since_ns, self._until_ns = since_ns, until_ns
        self.left = most
        """How many more may be read."""
        self.complete = False
        """Whether all since the requested time were read; otherwise only the newest were. Known
        after the last chunk."""

    def __iter__(self) -> Iterator[list[Traded]]:
        since_ns, until_ns = self._since_ns, self._until_ns
        span = EVERYTHING if until_ns is None else Span(market_until_ns=until_ns, rising=True)
        scanned = self._reader.scan(self._stream, span, reverse=True)
        records = (stored.record for stored in scanned)
        while not self.complete:
            chunk = list(islice(records, min(_CHUNK, self.left + 1)))
            self.complete = not chunk
            found: list[Traded] = []
            for each in _decoded(chunk):
                if each.at_ns < since_ns - _SLACK_NS:
                    self.complete = True
                    break
                if each.at_ns >= since_ns and (until_ns is None or each.at_ns < until_ns):
                    found.append(each)
            if len(found) > self.left:
                self.complete = False
                found = found[: self.left]
                self.left = 0
                yield found
                return
            self.left -= len(found)
            if found:
                yield found


def _decoded(records: list[bytes]) -> Iterator[Traded]:
    """Decode many records at once: that takes a third of the time."""
    try:
        yield from _decode(b"[%b]" % b",".join(map(json_of, records)))
        return
    except (msgspec.DecodeError, IndexError):
        pass
    for record in records:
        try:
            yield _decode_one(json_of(record))
        except (msgspec.DecodeError, IndexError, NotOurRecord):
            continue
