"""A stand-in for the exchange's stream: sends the inputs as WebSocket frames, as fast or at a pace.

A thread of the benchmark's own process, which does nothing else meanwhile. It speaks as much of the
protocol as its two clients need: the handshake, subscriptions answered, and text frames.
"""

import base64
import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TICK_S = 0.001


class Sender:
    """Serves one client at a time; each gets all frames, once."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self.load(frames)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.frames_per_s: int | None = None
        """None for as fast as they are taken."""
        self.late_ms = 0.0
        """How far the last paced run fell behind, at worst."""
        self._sending = threading.Lock()
        threading.Thread(target=self._serve_forever, daemon=True).start()

    def load(self, frames: Sequence[bytes]) -> None:
        """Send these from now on."""
        self._plain = list(frames)
        self._frames = [framed(frame) for frame in frames]
        self.most = len(frames)
        """How many frames a client gets."""
        self._sent: list[tuple[int, int]] = []

    def sent(self) -> Iterator[tuple[bytes, int]]:
        """What the last paced run sent, each frame with its instant by the monotonic clock."""
        first = 0
        for end, at_ns in self._sent:
            yield from ((frame, at_ns) for frame in self._plain[first:end])
            first = end

    def _serve_forever(self) -> None:
        while True:
            client, _ = self._listening.accept()
            with client, suppress(ConnectionError):
                self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = read_until(client, b"\r\n\r\n").decode()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        key = next(value for name, value in fields.items() if name.lower() == "sec-websocket-key")
        accept = base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()
        client.sendall(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        asked = threading.Event()
        answering = threading.Thread(target=self._answer, args=(client, asked), daemon=True)
        answering.start()
        if "streams=" not in head.split("\r\n", 1)[0]:
            asked.wait()
        frames = self._frames[: self.most]
        if self.frames_per_s is None:
            self._send(client, b"".join(frames))
        else:
            self._pace(client, frames, self.frames_per_s)
        answering.join()

    def _answer(self, client: socket.socket, asked: threading.Event) -> None:
        """Say yes to every subscription, until the client closes."""
        with suppress(ConnectionError, OSError):
            while True:
                said = read_frame(client)
                if said.startswith(b"{"):  # else it is a goodbye
                    answer = {"result": None, "id": json.loads(said)["id"]}
                    self._send(client, framed(json.dumps(answer).encode()))
                    asked.set()
        asked.set()

    def _send(self, client: socket.socket, data: bytes) -> None:
        with self._sending:
            client.sendall(data)

    def _pace(self, client: socket.socket, frames: Sequence[bytes], frames_per_s: int) -> None:
        start_s, sent, self.late_ms = time.monotonic(), 0, 0.0
        self._sent = []
        while sent < len(frames):
            passed_s = time.monotonic() - start_s
            due = min(len(frames), int(passed_s * frames_per_s))
            if due > sent:
                self.late_ms = max(self.late_ms, 1000 * (passed_s - sent / frames_per_s))
                self._sent.append((due, time.monotonic_ns()))
                self._send(client, b"".join(frames[sent:due]))
                sent = due
            time.sleep(_TICK_S)


def framed(payload: bytes) -> bytes:
    """A whole text message from a server: one frame, not masked."""
    size = len(payload)
    if size < 126:
        return bytes([0x81, size]) + payload
    if size < 1 << 16:
        return bytes([0x81, 126]) + size.to_bytes(2, "big") + payload
    return bytes([0x81, 127]) + size.to_bytes(8, "big") + payload


def read_until(client: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        data += _read(client, 1)
    return data


def read_frame(client: socket.socket) -> bytes:
    """A client's message: one frame, masked."""
    return read_any_frame(client)[1]


def read_any_frame(client: socket.socket) -> tuple[int, bytes]:
    """The kind of a client's frame, and what is in it."""
    first, second = _read(client, 2)
    size = second & 0x7F
    if size == 126:
        size = int.from_bytes(_read(client, 2), "big")
    mask, payload = _read(client, 4), _read(client, size)
    return first & 0x0F, bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


def _read(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = client.recv(size - len(data))
        if not piece:
            raise ConnectionError("the client left")
        data += piece
    return data
