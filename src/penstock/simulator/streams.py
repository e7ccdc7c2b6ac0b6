"""Streams: one connection from its opening to its end.

Everything a client sends is counted, its pings and pongs too. What goes to it passes its outbox,
so an acknowledgement always comes before the first frame it announces.
"""

import asyncio
from collections import deque
from typing import cast

from aiohttp import WSMessage, WSMsgType, web

from penstock.simulator.engine import Engine
from penstock.simulator.exchange import Opening, Refused, Subscriber
from penstock.simulator.rest import respond
from penstock.simulator.wire import PONG, Change, Client, encode
from penstock.telemetry import ClientConnected, ClientGone, log_error

_LONGEST_MESSAGE_BYTES = 1024 * 1024
_REMEMBERED = 1000
_RECEIVED = (WSMsgType.TEXT, WSMsgType.BINARY, WSMsgType.PING, WSMsgType.PONG)
POLICY_VIOLATION, GOING_AWAY, INTERNAL_ERROR = 1008, 1001, 1011


class Streams:
    """Serves stream connections and keeps account of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.open: dict[int, Client] = {}
        self.recent: deque[Client] = deque(maxlen=_REMEMBERED)
        """Connections that have ended, newest last."""
        self._opened = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve one connection until it ends, or refuse it."""
        engine, now_ms = self._engine, self._engine.clock.now_ms()
        try:
            opening = engine.exchange.open(request.path, dict(request.query))
        except Refused as refused:
            return respond(engine.exchange, refused.reply)
        if opening is None:
            return respond(engine.exchange, engine.exchange.not_found(request.path))
        verdict = engine.admission.connect(request.remote or "", request.path, now_ms)
        if not verdict.admitted:
            engine.tell_refused(request.path, verdict)
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
            self._farewell(client)
        return socket

    def replan(self) -> None:
        """Let the plan of faults now in force hold for connections already open."""
        for client in self.open.values():
            for held in client.faults.release() if client.faults is not None else ():
                self._engine.pump.put(client, held.stream, held.payload)
            client.faults = self._engine.injector.for_connection(
                client.id, client.path, client.opened_ms
            )

    def give_notice(self, client: Client, leaves_ms: int) -> None:
        """Warn a client that its connection will end."""
        now_ms = self._engine.clock.now_ms()
        stream, payload = self._engine.exchange.shutdown_notice(now_ms, client.subscriber.dialect)
        if client.subscriber.wrapped:
            payload = self._engine.exchange.wrap(stream, payload)
        client.put(encode(payload))
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
            subscriber=Subscriber(dict.fromkeys(opening.streams), opening.wrapped, opening.dialect),
            faults=engine.injector.for_connection(self._opened, request.path, now_ms),
            pinged_ms=now_ms,
        )
        client.changes.append(Change(now_ms, opening.streams))
        self.open[client.id] = client
        engine.tell(
            ClientConnected(exchange=engine.exchange.name, connection=client.id, path=request.path)
        )
        if not self._has_too_many(client):
            engine.pump.attach(client)
        return client

    def _farewell(self, client: Client) -> None:
        engine = self._engine
        client.gone("the client left", engine.clock.now_ms())
        engine.pump.detach(client)
        engine.admission.forget(client.id)
        del self.open[client.id]
        self.recent.append(client)
        engine.tell(
            ClientGone(exchange=engine.exchange.name, connection=client.id, reason=client.reason)
        )

    async def _listen(self, socket: web.WebSocketResponse, client: Client) -> None:
        while True:
            message = await socket.receive()
            if message.type not in _RECEIVED:
                return
            # Once told to go, a client is only waited for until it agrees.
            if client.closed_ms is None:
                self._take(message, client)

    def _take(self, message: WSMessage, client: Client) -> None:
        engine, now_ms = self._engine, self._engine.clock.now_ms()
        client.messages_received += 1
        if not engine.admission.message(client.id, now_ms):
            client.close(POLICY_VIOLATION, "Too many requests", now_ms)
            engine.admission.offend(client.ip, now_ms)
        elif message.type is WSMsgType.PING:
            client.outbox.append(encode(bytes(message.data), PONG))
        elif message.type is WSMsgType.PONG:
            client.pong(bytes(message.data))
        elif message.type is WSMsgType.TEXT:
            try:
                self._obey(message.data, client)
            except Exception as error:
                engine.failures += 1
                log_error("message_failed", connection=client.id, error=repr(error))
                client.close(INTERNAL_ERROR, "internal error", now_ms)

    def _obey(self, text: str, client: Client) -> None:
        engine, now_ms = self._engine, self._engine.clock.now_ms()
        before = tuple(client.subscriber.streams)
        for text_back, acknowledges in engine.exchange.control(text, client.subscriber):
            reply = text_back
            if acknowledges and client.faults is not None:
                outcome = client.faults.ack(reply, now_ms)
                if outcome == "lost":
                    continue
                if outcome == "refused":
                    reply = engine.exchange.refuse_ack(reply)
                    client.subscriber.streams = dict.fromkeys(before)
            client.put(encode(reply))
        after = tuple(client.subscriber.streams)
        if after != before and not self._has_too_many(client):
            client.changes.append(Change(now_ms, after))
            engine.pump.resubscribe(client, before)

    def _has_too_many(self, client: Client) -> bool:
        if len(client.subscriber.streams) <= self._engine.settings.streams_per_connection:
            return False
        now_ms = self._engine.clock.now_ms()
        client.close(POLICY_VIOLATION, "Too many streams", now_ms)
        return True
