"""Handles a stream connection from its opening to its end.

Every message of a client is counted, pings and pongs included. Acknowledgements and frames go
through the same outbox, so an acknowledgement always precedes the first frame of its stream.
"""

import asyncio
from typing import cast

from aiohttp import WSMessage, WSMsgType, web

from penstock.simulator.engine.connections import Ended
from penstock.simulator.engine.engine import Engine
from penstock.simulator.engine.exchange import Asked, ControlReply, Opening, Refused, Subscriber
from penstock.simulator.engine.facts import ClientConnected, ClientGone
from penstock.simulator.engine.rest import respond
from penstock.simulator.engine.wire import BINARY, PONG, TEXT, Client, encode
from penstock.telemetry import log_error

_LONGEST_MESSAGE_BYTES = 128 * 1024  # one message may contain all streams of a connection
_LONGEST_NAMES = 1024 * 1024  # total length of the names a connection is subscribed to, characters
_RECEIVED = (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING, WSMsgType.PONG)
POLICY_VIOLATION, GOING_AWAY, INTERNAL_ERROR = 1008, 1001, 1011


class Streams:
    """Serves stream connections and keeps track of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.open: dict[int, Client] = {}
        self.ended = Ended()
        self._opened = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve one connection until it ends, or refuse it."""
        engine, now_ms = self._engine, self._engine.clock.now_ms()
        try:
            asked = Asked(dict(request.query), request.headers)
            opening = engine.exchange.open(request.path, asked)
        except Refused as refused:
            return respond(engine.exchange, refused.reply)
        if opening is None:
            return respond(engine.exchange, engine.exchange.not_found(request.path))
        verdict = engine.limiter.connect(request.remote or "", request.path, now_ms, opening.group)
        if not verdict.admitted:
            engine.emit_refused(request.path, verdict)
            return respond(engine.exchange, engine.exchange.refusal(verdict))
        socket = web.WebSocketResponse(
            autoping=False, compress=False, max_msg_size=_LONGEST_MESSAGE_BYTES
        )
        socket.headers.update(engine.exchange.headers)
        await socket.prepare(request)
        client = self._welcome(request, opening)
        try:
            await self._listen(socket, client)
        finally:
            self._remove(client)
        return socket

    def replan(self) -> None:
        """Apply the fault plan now in force to open connections."""
        for client in self.open.values():
            for held in client.faults.release() if client.faults is not None else ():
                self._engine.broadcaster.put(client, held.stream, held.payload)
            client.faults = self._engine.injector.for_connection(
                client.id, client.path, client.opened_ms
            )

    def give_notice(self, client: Client, leaves_ms: int) -> None:
        """Send a client a shutdown notice and schedule the end of its connection."""
        now_ms = self._engine.clock.now_ms()
        notice = self._engine.exchange.shutdown_notice(now_ms, client.subscriber.dialect)
        if notice is not None:
            self._engine.broadcaster.put(client, *notice)
        client.leaves_ms = leaves_ms

    def _welcome(self, request: web.BaseRequest, opening: Opening) -> Client:
        engine, now_ms = self._engine, self._engine.clock.now_ms()
        self._opened += 1
        client = Client(
            id=self._opened,
            ip=request.remote or "",
            path=request.path,
            opened_ms=now_ms,
            transport=cast("asyncio.Transport", request.transport),
            opcode=BINARY if engine.exchange.binary else TEXT,
            subscriber=Subscriber(dict.fromkeys(opening.streams), opening.wrapped, opening.dialect),
            faults=engine.injector.for_connection(self._opened, request.path, now_ms),
            pinged_ms=now_ms,
            last_active_ms=now_ms,
        )
        client.changed(now_ms)
        self.open[client.id] = client
        engine.emit(
            ClientConnected(exchange=engine.exchange.name, connection=client.id, path=request.path)
        )
        for payload in engine.exchange.greeting(client.id, now_ms):
            client.put(payload)
        if not self._has_too_many(client):
            engine.broadcaster.attach(client)
        return client

    def _remove(self, client: Client) -> None:
        engine = self._engine
        client.gone("the client left", engine.clock.now_ms())
        engine.broadcaster.detach(client)
        engine.limiter.forget(client.id)
        del self.open[client.id]
        self.ended.append(client)
        engine.emit(
            ClientGone(exchange=engine.exchange.name, connection=client.id, reason=client.reason)
        )

    async def _listen(self, socket: web.WebSocketResponse, client: Client) -> None:
        while True:
            message = await socket.receive()
            if message.type not in _RECEIVED:
                return
            # After the close frame, messages are ignored until the client closes.
            if client.closed_ms is None:
                self._take(message, client)

    def _take(self, message: WSMessage, client: Client) -> None:
        engine, now_ms = self._engine, self._engine.clock.now_ms()
        client.messages_received += 1
        client.last_active_ms = now_ms
        text = self._text_of(message)
        if not engine.limiter.message(client.id, now_ms, client.ip):
            self._overrun(text or "", client)
        elif message.type is WSMsgType.PING:
            client.outbox.append(encode(bytes(message.data), PONG))
        elif message.type is WSMsgType.PONG:
            client.pong(bytes(message.data))
        elif text is not None:
            try:
                self._obey(text, client)
            except Exception as error:
                engine.failures += 1
                log_error("message_failed", connection=client.id, error=repr(error))
                client.close(INTERNAL_ERROR, "internal error", now_ms)

    def _text_of(self, message: WSMessage) -> str | None:
        if message.type is WSMsgType.TEXT:
            return str(message.data)
        if message.type is WSMsgType.BINARY and self._engine.exchange.binary:
            return bytes(message.data).decode(errors="replace")
        return None

    def _overrun(self, text: str, client: Client) -> None:
        answer = self._engine.exchange.overrun(text)
        now_ms = self._engine.clock.now_ms()
        if answer is not None:
            client.put(answer)
            return
        client.close(POLICY_VIOLATION, "Too many requests", now_ms)
        self._engine.limiter.offend(client.ip, now_ms)

    def _obey(self, text: str, client: Client) -> None:
        engine, now_ms = self._engine, self._engine.clock.now_ms()
        before = tuple(client.subscriber.streams)
        for reply in engine.exchange.control(text, client.subscriber, now_ms):
            self._answer(reply, client, before)
        after = tuple(client.subscriber.streams)
        if after == before and not client.subscriber.renewed:
            return
        if self._has_too_many(client):
            # The broadcaster still has the previous streams; detaching leaves exactly those.
            client.subscriber.streams = dict.fromkeys(before)
            return
        client.changed(now_ms)
        engine.broadcaster.resubscribe(client, before)

    def _answer(self, reply: ControlReply, client: Client, before: tuple[str, ...]) -> None:
        engine = self._engine
        if reply.acknowledges and client.faults is not None:
            outcome = client.faults.ack(reply.text, engine.clock.now_ms())
            if outcome == "lost":
                return
            if outcome == "refused":
                _take_back(reply, client.subscriber, before)
                client.put(engine.exchange.refuse_ack(reply.text))
                return
        client.put(reply.text)

    def _has_too_many(self, client: Client) -> bool:
        most, streams = self._engine.exchange.upkeep.most_streams, client.subscriber.streams
        if (most is None or len(streams) <= most) and sum(map(len, streams)) <= _LONGEST_NAMES:
            return False
        now_ms = self._engine.clock.now_ms()
        client.close(POLICY_VIOLATION, "Too many streams", now_ms)
        return True


def _take_back(reply: ControlReply, subscriber: Subscriber, before: tuple[str, ...]) -> None:
    """Undo the changes of a refused acknowledgement."""
    if reply.concerns is None:
        subscriber.streams = dict.fromkeys(before)
        subscriber.renewed.clear()
        return
    for stream in reply.concerns:
        subscriber.renewed.discard(stream)
        if stream in before:
            subscriber.streams[stream] = None
        else:
            subscriber.streams.pop(stream, None)
