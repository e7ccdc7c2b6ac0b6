"""Appends events whose keys rise, as ``appending`` does it, in the compiled extension.

It is told of a stream when its head was loaded. Events that are not its usual case are left to the
Python code: late ones, candles, those of unknown streams, and those with unusual values.
"""

from collections.abc import Sequence

from penstock import compiled
from penstock.market.codec import encode
from penstock.market.compiled_codec import beginning_of, encoder_of
from penstock.market.events import Event
from penstock.storage.log import Stored
from penstock.storage.log.heads import MOST_IN_BATCH, StreamHead
from penstock.storage.log.key_values import Changes
from penstock.storage.log.keys import PLAIN_IDS, Stream

_STORED_FIELDS = ("stream", "slot", "number", "key", "record", "topic", "known")
_HEAD_FIELDS = ("highest_id", "highest_ns", "number", "id_batch_end", "arrival_batch_end",
                "batch_second", "prefix", "stream", "topic", "_batch", "_second",
                "_numbers_prefix", "_times_prefix")  # fmt: skip


class CompiledAppending:
    """The streams that the extension appends to; without it, none."""

    def __init__(self) -> None:
        self._appender = None
        if compiled.Appender is not None:
            self._appender = compiled.Appender(
                Stored(Stream("", "", ""), "", 0, b"", b"", ""),
                tuple(getattr(Stored, name) for name in _STORED_FIELDS),
                StreamHead.__new__(StreamHead),
                tuple(getattr(StreamHead, name) for name in _HEAD_FIELDS),
                MOST_IN_BATCH,
            )

    def add(
        self, events: Sequence[Event], batch: Changes, slot: str
    ) -> tuple[Sequence[Stored], Sequence[Event]]:
        """Add all events of some streams; return their records, and the events of the others."""
        return ([], events) if self._appender is None else self._appender.add(events, batch, slot)

    def learn(self, event: Event, head: StreamHead) -> None:
        """Append to the stream of this event from now on, if its events are of a usual class."""
        if self._appender is None or head.is_final is not None:
            return
        encoder = encoder_of(event)
        if encoder is None or head.ascending_ids_below != PLAIN_IDS:
            return
        beginning = beginning_of(event)
        record = encoder.encode(beginning, event)
        if record is None or record == encode(event):
            self._appender.learn(event, head, encoder, beginning)

    def forget_heads(self) -> None:
        """Append to no stream until it is learnt again: its head may be wrong."""
        if self._appender is not None:
            self._appender.clear()
