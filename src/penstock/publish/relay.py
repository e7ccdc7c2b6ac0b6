"""Forwards the records of publishers: checks them, sends them, and stores the last of each stream.

The compiled path takes a batch in one call. It calls ZeroMQ's send function itself, in the library
that pyzmq has loaded and with its socket: a call of pyzmq for each record takes several times as
long as the sending, and the network thread is woken more often the longer a batch takes. Where that
function is not to be found, or without the extension, the Python code below does the same.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock import compiled
from penstock.publish.frames import number_place, read_frame, unpack_frames
from penstock.publish.libzmq import addresses
from penstock.publish.outbox import LARGE, Outbox
from penstock.publish.registry import ENTRY_BYTES, BusCounts, Registry

if TYPE_CHECKING:
    from penstock.compiled._hot import Relay as CompiledRelay

_MOST_CHECKED = 1000
"""Slots whose batches are known to begin correctly; with more, they are checked again."""
_NUMBER_BYTES = 8
_ALONE = -1
"""Where a frame begins that is no batch, for the compiled path."""


class Relay:
    """Forwards records through an outbox."""

    def __init__(self, registry: Registry, outbox: Outbox, counts: BusCounts) -> None:
        self._registry, self._outbox, self._counts = registry, outbox, counts
        self._checked: set[bytes] = set()
        self._compiled = _compiled_relay(registry, outbox)

    def forward(self, frame: bytes) -> None:
        """Forward a record, or count it as malformed."""
        if not self._forward_compiled(frame, _ALONE):
            self._forward([frame])

    def forward_batch(self, batch: bytes) -> None:
        """Forward the records in a frame of kind BATCH; those that are malformed are counted.

        Raises:
            NotOurRecord: it is damaged. Nothing was forwarded.
        """
        place = number_place(batch)
        if batch[:place] not in self._checked:
            read_frame(batch)
            if len(self._checked) >= _MOST_CHECKED:
                self._checked.clear()
            self._checked.add(batch[:place])
        payload = place + _NUMBER_BYTES
        if not self._forward_compiled(batch, payload):
            self._forward(unpack_frames(batch[payload:]))

    def _forward_compiled(self, data: bytes, place: int) -> bool:
        """Forward what begins at a place; return whether that was done."""
        if self._compiled is None:
            return False
        self._outbox.has_sent = True
        done = self._compiled.forward(data, place)
        if done is None:
            return False
        forwarded, malformed, added = done
        self._registry.added(added)
        self._counts.forwarded += forwarded
        self._counts.malformed += malformed
        return True

    def _forward(self, frames: Sequence[bytes]) -> None:
        records = self._registry.passed(frames)
        self._outbox.send(records)
        self._counts.forwarded += len(records)
        self._counts.malformed += len(frames) - len(records)


def _compiled_relay(registry: Registry, outbox: Outbox) -> "CompiledRelay | None":
    found = addresses("zmq_send")
    if compiled.Relay is None or found is None:
        return None
    return compiled.Relay(
        socket=outbox.socket_address,
        send=found["zmq_send"],
        large=LARGE,
        send_else=lambda frame: outbox.send([frame]),
        stream_of=registry.stream_of,
        last=registry.last,
        most=registry.most_of_one,
        entry=ENTRY_BYTES,
    )
