"""A stand-in for Binance in a process of its own: markets and books over REST, frames on streams.

Clients connect as they do to the exchange, with as many connections as they like, and each gets the
frames of the streams that it asked for, in its address or by message. What it says over REST is
true before the first frame. Each line it reads is a command in JSON, each answer one line.
"""

import base64
import hashlib
import json
import re
import socket
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.inputs.sender import framed, read_any_frame, read_until
from bench.inputs.stored import Inputs

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _PING, _PONG = 0x1, 0x9, 0x8A
"""Kinds of frames from a client, and the first byte of an answer."""
_TICK_S = 0.001
_PIECE = 2_000
"""Frames handed to the kernel at once in a flood."""
_PATIENCE_S = 60.0
_MANY = 1_000_000
"""No limit of requests is reached: waiting for one is not what is measured."""


class _Client:
    """A connection, and the streams that it wants."""

    def __init__(self, connection: socket.socket, head: str) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        wanted = parse_qs(urlsplit(head.split(" ")[1]).query).get("streams", [""])[0]
        self.streams = set(filter(None, wanted.split("/")))

    def send(self, data: bytes) -> None:
        with self._sending:
            self._connection.sendall(data)

    def answer_forever(self) -> None:
        """Say yes to every subscription, and answer pings, until the client closes."""
        while True:
            kind, said = read_any_frame(self._connection)
            if kind == _PING:  # a client that gets no answer closes after a while
                self.send(bytes([_PONG, len(said)]) + said)
            elif kind == _TEXT:
                asked = json.loads(said)
                self.send(framed(json.dumps({"result": None, "id": asked["id"]}).encode()))
                self.streams.update(asked.get("params") or ())


class _Part:
    """What one client gets: its frames, and the place of each among all."""

    def __init__(self, client: _Client, frames: Sequence[tuple[int, bytes]]) -> None:
        self._client = client
        self._places = [place for place, _ in frames]
        self._frames = [framed(frame) for _, frame in frames]
        self._sent = 0

    def send_until(self, place: int) -> None:
        """Send what comes before this place and was not sent yet."""
        end = bisect_left(self._places, place)
        if end > self._sent:
            with suppress(OSError):  # it has closed: its subscriber says what is missing
                self._client.send(b"".join(self._frames[self._sent : end]))
            self._sent = end


class Exchange:
    """Serves REST and streams, and sends frames when it is told to."""

    def __init__(self, inputs: Inputs) -> None:
        self._frames = inputs.frames()
        self._names = [frame[11 : frame.index(b'"', 11)].decode() for frame in self._frames]
        self._clients: list[_Client] = []
        self._info, self._books = _describe(inputs), inputs.snapshots()
        self.unknown: list[str] = []
        """Requests that have no answer."""
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._rest = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.ports = {
            "stream": self._listening.getsockname()[1],
            "rest": self._rest.server_address[1],
        }
        for serve in (self._accept_forever, self._rest.serve_forever):
            threading.Thread(target=serve, daemon=True).start()

    def wait(self) -> dict[str, Any]:
        """Wait until every stream is wanted by somebody."""
        wanted, give_up_s = set(self._names), time.monotonic() + _PATIENCE_S
        while missing := wanted - {name for each in self._clients for name in each.streams}:
            if time.monotonic() > give_up_s:
                return {"missing": len(missing), "unknown": self.unknown}
            time.sleep(0.02)
        return {"missing": 0, "connections": len(self._clients)}

    def send(self, first: int, end: int, rate: int | None) -> dict[str, Any]:
        """Send a range of the frames, so many a second or as fast as they are taken."""
        wanted = {name: client for client in self._clients for name in client.streams}
        shares: dict[_Client, list[tuple[int, bytes]]] = {each: [] for each in self._clients}
        for place in range(first, end):
            shares[wanted[self._names[place]]].append((place, self._frames[place]))
        parts = [_Part(client, share) for client, share in shares.items()]
        began_s, late_ms, sent = time.monotonic(), 0.0, first
        ticks: list[tuple[int, int]] = []
        while sent < end:
            passed_s = time.monotonic() - began_s
            due = min(end, first + int(passed_s * rate)) if rate else min(end, sent + _PIECE)
            if due > sent:
                if rate:
                    late_ms = max(late_ms, 1000 * (passed_s - (sent - first) / rate))
                ticks.append((due, time.monotonic_ns()))
                for part in parts:
                    part.send_until(due)
                sent = due
            if rate:
                time.sleep(_TICK_S)
        return {"late_ms": late_ms, "ticks": ticks, "unknown": self.unknown}

    def _accept_forever(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(ConnectionError, OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            head = read_until(connection, b"\r\n\r\n").decode()
            (key,) = re.findall(r"(?i)sec-websocket-key: (\S+)", head)
            accept = base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()
            client = _Client(connection, head)
            client.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode()
            )
            self._clients.append(client)
            try:
                client.answer_forever()
            finally:
                self._clients.remove(client)

    def _answer(self, address: str) -> str | None:
        parts = urlsplit(address)
        match parts.path.rpartition("/")[2]:
            case "exchangeInfo":
                return self._info
            case "time":
                return json.dumps({"serverTime": time.time_ns() // 1_000_000})
            case "depth":
                return self._books[parse_qs(parts.query)["symbol"][0]]
            case _:
                self.unknown.append(address)
                return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = answer(self.path)
                data = (body or '{"code":-1,"msg":"not known here"}').encode()
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


def _describe(inputs: Inputs) -> str:
    symbols = [
        {
            "symbol": each.native, "status": "TRADING", "baseAsset": each.base,
            "quoteAsset": each.quote, "filters": [
                {"filterType": "PRICE_FILTER", "tickSize": "0.00001000"},
                {"filterType": "LOT_SIZE", "stepSize": "0.00000001"},
            ],
        }
        for each in inputs.markets()
    ]  # fmt: skip
    limits = [
        {"rateLimitType": kind, "interval": "MINUTE", "intervalNum": 1, "limit": _MANY}
        for kind in ("REQUEST_WEIGHT", "RAW_REQUESTS")
    ]
    return json.dumps({"symbols": symbols, "rateLimits": limits})


def main() -> None:
    """Answer commands until there are no more."""
    exchange = Exchange(Inputs(Path(sys.argv[1])))
    print(json.dumps(exchange.ports), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        answer = exchange.send(**asked) if asked else exchange.wait()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
