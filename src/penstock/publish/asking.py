"""Requests the list of slots and streams from the bus."""

import asyncio
import secrets

import msgspec
import zmq

from penstock.clock import Clock
from penstock.errors import BusUnreachable, NotOurRecord
from penstock.publish.endpoints import BusEndpoints
from penstock.publish.frames import STREAMS, FrameKind, read_frame
from penstock.publish.readiness import Socket, drain, readable
from penstock.publish.registry import BusFacts

_facts = msgspec.json.Decoder(BusFacts).decode


async def ask_bus(endpoints: BusEndpoints, clock: Clock, timeout_s: float = 3.0) -> BusFacts:
    """Return every slot and stream on the bus, and the broker's counts.

    Raises:
        BusUnreachable: the broker does not answer in time.
    """
    context: zmq.Context[Socket] = zmq.Context()
    socket = context.socket(zmq.SUB)
    try:
        endpoints.connect(socket, "subscribe")
        socket.subscribe(f"{STREAMS}.{secrets.token_hex(8)}\0")
        answer = asyncio.ensure_future(_answer(socket))
        deadline = asyncio.ensure_future(clock.sleep(timeout_s))
        await asyncio.wait({answer, deadline}, return_when=asyncio.FIRST_COMPLETED)
        deadline.cancel()
        if not answer.done():
            answer.cancel()
            await asyncio.wait({answer})
            raise BusUnreachable(endpoints.subscribe)
        return answer.result()
    finally:
        context.destroy(0)


async def _answer(socket: Socket) -> BusFacts:
    while True:
        for data in drain(socket, 10):
            try:
                frame = read_frame(data)
                if frame.kind is FrameKind.FACTS:
                    return _facts(frame.payload)
            except (NotOurRecord, msgspec.MsgspecError):
                continue  # Not a frame of this version: ignored, as if no answer had come.
        await readable(socket)
