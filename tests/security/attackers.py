"""Attackers: random bytes, huge frames, forged numbers, and connections that are left half open.

Everything is drawn from a seed. ``Attackers`` come to a server as its clients; ``HostileMiddle``
stands between a collector and its exchange and is, while it is told to be, a hostile exchange.
"""

import asyncio
import random
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

_BROKEN = (ConnectionError, TimeoutError, OSError, asyncio.IncompleteReadError)
_MOST_HELD = 200
_WAIT_S, _SILENT_S = 2.0, 0.5
_KINDS = ("noise", "silence", "forged", "huge")
T = TypeVar("T")
NUMBERS = (
    "-1", "1e400", "NaN", "-0", "0x10", "9" * 30, "9" * 5000, "1.5", "٣", "", "null", "[[]]",
    "18446744073709551616", "-9223372036854775809", "9999999999999999", "5, 5", "+7", "1_0",
)  # fmt: skip
"""What is no number, or none that anybody means."""
_UPGRADE = (
    "GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def frame(text: bytes, *, masked: bool = False, said_bytes: int | None = None) -> bytes:
    """A text frame, whose length may be a lie."""
    length = len(text) if said_bytes is None else said_bytes
    mask = 0x80 if masked else 0
    head = bytes([0x81, mask | 127]) + struct.pack(">Q", length)
    return head + (b"\0\0\0\0" if masked else b"") + text


class Attackers:
    """Clients that mean no good."""

    def __init__(self, seed: int, port: int, paths: Sequence[str]) -> None:
        self._draw, self._port, self._paths = random.Random(seed), port, paths
        self._held: list[asyncio.StreamWriter] = []
        self.attacks: Counter[str] = Counter()

    async def attack(self, until_s: float, at_once: int = 4) -> None:
        """Attack until then, so many at once."""
        loop, attacks = asyncio.get_running_loop(), _each_in_turn(self._draw, _ATTACKS)

        async def one() -> None:
            while loop.time() < until_s:
                attack = next(attacks)
                with suppress(*_BROKEN):
                    async with asyncio.timeout(_WAIT_S):
                        await attack(self)
                self.attacks[attack.__name__] += 1
                await asyncio.sleep(0)

        await asyncio.gather(*(one() for _ in range(at_once)))
        for writer in self._held:
            writer.close()
        await asyncio.gather(*(each.wait_closed() for each in self._held), return_exceptions=True)
        self._held.clear()

    async def _say(self, *parts: bytes, hold: bool = False) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            if hold and len(self._held) < _MOST_HELD:
                self._held.append(writer)
            else:
                async with asyncio.timeout(0.2):
                    await reader.read(1000)
        finally:
            if writer not in self._held:
                writer.close()
                with suppress(*_BROKEN):
                    await writer.wait_closed()

    def _path(self) -> str:
        number = self._draw.choice(NUMBERS).encode().hex("%")
        return self._draw.choice(self._paths).replace("{}", f"%{number}" if number else "")

    def _post(self, length: int | str) -> bytes:
        head = f"POST {self._path()} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n"
        return f"{head}Content-Type: application/json\r\n\r\n".encode()

    async def noise(self) -> None:
        await self._say(self._draw.randbytes(self._draw.randrange(1, 65_536)))

    async def noise_after_a_beginning(self) -> None:
        await self._say(f"GET {self._path()} HTTP/1.1\r\n".encode(), self._draw.randbytes(5_000))

    async def half_open(self) -> None:
        whole = f"POST {self._path()} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n{{"
        await self._say(whole.encode()[: self._draw.randrange(len(whole))], hold=True)

    async def huge_header(self) -> None:
        await self._say(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"a" * 1_000_000)

    async def huge_body(self) -> None:
        length = self._draw.choice((10**18, 2_000_000))
        await self._say(self._post(length), b"[" * 1_500_000)

    async def forged_length(self) -> None:
        await self._say(self._post(self._draw.choice(NUMBERS)), b"{}")

    async def forged_chunk(self) -> None:
        head = f"POST {self._path()} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
        size = self._draw.choice(("ffffffffffffffff", "-1", "٣", "0x5", "1" * 5000))
        await self._say(f"{head}\r\n{size}\r\nabc\r\n".encode())

    async def forged_number(self) -> None:
        number = self._draw.choice(NUMBERS)
        body = f'{{"exchange_id":"binance","rate_limit":{number},"plan":{number}}}'.encode()
        await self._say(self._post(len(body)), body)
        await self._say(f"GET {self._path()} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    async def huge_frame(self) -> None:
        lie = self._draw.choice((1 << 62, (1 << 64) - 1, 1 << 31, 20_000_000))
        said = frame(b"x" * 100_000, masked=True, said_bytes=lie)
        await self._say(_UPGRADE.format(self._path()).encode(), said, hold=True)

    async def many_frames(self) -> None:
        piece = bytes([0x00, 0x80]) + b"\0\0\0\0"
        kinds = (bytes([0x01, 0x80]) + b"\0\0\0\0" + piece * 5_000, frame(b"[" * 900, masked=True))
        said = self._draw.choice((*kinds, self._draw.randbytes(4_000)))
        await self._say(_UPGRADE.format(self._path()).encode(), said)


_ATTACKS: Sequence[Callable[[Attackers], Awaitable[None]]] = (
    Attackers.noise, Attackers.noise_after_a_beginning, Attackers.half_open, Attackers.huge_header,
    Attackers.huge_body, Attackers.forged_length, Attackers.forged_chunk, Attackers.forged_number,
    Attackers.huge_frame, Attackers.many_frames,
)  # fmt: skip


def _each_in_turn(draw: random.Random, kinds: Sequence[T]) -> Iterator[T]:
    """All of them, again and again, each time in another order."""
    while True:
        yield from draw.sample(kinds, len(kinds))


class HostileMiddle:
    """Hands everything on between a collector and an exchange, unless it is hostile."""

    def __init__(self, seed: int, exchange_port: int) -> None:
        self._draw, self._exchange_port = random.Random(seed), exchange_port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        # By whether it is a stream.
        self._kinds = {each: _each_in_turn(self._draw, _KINDS) for each in (True, False)}
        self.hostile, self.port = False, 0
        self.attacks: Counter[str] = Counter()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*(w.wait_closed() for w in self._writers), return_exceptions=True)

    def cut(self) -> None:
        """End every connection."""
        for writer in self._writers:
            writer.close()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with suppress(*_BROKEN):
                head = await reader.readuntil(b"\r\n\r\n")
                is_stream = b"upgrade: websocket" in head.lower()
                # Every other stream is good, so that books are asked for.
                share = 0.5 if is_stream else 0.8
                if self.hostile and self._draw.random() < share:
                    await self._spoil(head, is_stream, writer)
                else:
                    await self._hand_on(head, reader, writer, b"")
        finally:
            writer.close()
            self._writers.discard(writer)

    async def _spoil(self, head: bytes, is_stream: bool, writer: asyncio.StreamWriter) -> None:
        how = next(self._kinds[is_stream])
        self.attacks[f"{how} {'stream' if is_stream else 'answer'}"] += 1
        if how == "silence":
            await asyncio.sleep(_SILENT_S)
        elif how == "noise":
            writer.write(self._draw.randbytes(20_000))
        elif is_stream:
            reader = asyncio.StreamReader()  # What the collector asks for is not heard.
            await self._hand_on(head, reader, writer, self._frames(how))
        else:
            writer.write(self._answer(how))
        await writer.drain()

    def _frames(self, how: str) -> bytes:
        if how == "huge":
            lie = self._draw.choice((1 << 62, 1 << 40, 15_000_000))
            return frame(b"[" * 500_000, said_bytes=lie)
        said = []
        for number in NUMBERS:
            trade = (
                f'{{"stream":"btcusdt@trade","data":{{"e":"trade","E":{number or 0},"s":"BTCUSDT",'
                f'"t":{number or 0}.5,"p":"{number}","q":"{number}","T":{number or 0},"m":true}}}}'
            )
            delta = (
                f'{{"stream":"btcusdt@depth@100ms","data":{{"e":"depthUpdate","E":1,"s":"BTCUSDT",'
                f'"U":{number or 0},"u":"{number}","b":[["{number}","x"]],"a":[]}}}}'
            )
            said += [frame(trade.encode()), frame(delta.encode())]
        return b"".join([*said, frame(b"[" * 100_000), frame(self._draw.randbytes(100))])

    def _answer(self, how: str) -> bytes:
        number = self._draw.choice(NUMBERS)
        body = f'{{"lastUpdateId":{number or 0}.5,"bids":[["{number}","x"]],"asks":[]}}'.encode()
        if how == "huge":
            body = b"[" * 3_000_000
        length = self._draw.choice((str(len(body)), "99999999999", number))
        head = (
            f"HTTP/1.1 {self._draw.choice((200, 200, 500, 404))} X\r\nContent-Length: {length}\r\n"
            f"X-MBX-USED-WEIGHT-1M: -{number[:50]}\r\nRetry-After: -{number[:50]}\r\n\r\n"
        )
        return head.encode() + body

    async def _hand_on(
        self,
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        first: bytes,
    ) -> None:
        """Hand on both ways; behind the head of the answer comes ``first``."""
        theirs, to_them = await asyncio.open_connection("127.0.0.1", self._exchange_port)
        self._writers.add(to_them)
        try:
            to_them.write(head)
            if first:
                writer.write(await theirs.readuntil(b"\r\n\r\n") + first)
                await writer.drain()
            ways = [_pump(reader, to_them), _pump(theirs, writer)]
            tasks = [asyncio.create_task(way) for way in ways]
            _, left = await asyncio.wait(
                tasks, return_when=asyncio.FIRST_COMPLETED, timeout=_SILENT_S if first else None
            )
            for task in left:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            to_them.close()
            self._writers.discard(to_them)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(*_BROKEN):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
