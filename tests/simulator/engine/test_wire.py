"""Frames as bytes, and a client's bookkeeping."""

import asyncio
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.engine.wire import CLOSE, PING, TEXT, Client, encode, encode_all


class Recorder:
    """Keeps what is written, and how it ended."""

    def __init__(self) -> None:
        self.written = b""
        self.ended = ""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"


def _decode(data: bytes) -> list[tuple[int, bytes]]:
    """Frames by the letter of RFC 6455, section 5.2: final, unmasked, shortest length."""
    frames = []
    while data:
        assert data[0] & 0xF0 == 0x80
        assert data[1] < 128, "a server never masks"
        size, start = data[1], 2
        if size == 126:
            size, start = int.from_bytes(data[2:4], "big"), 4
            assert size >= 126
        elif size == 127:
            size, start = int.from_bytes(data[2:10], "big"), 10
            assert size >= 65536
        frames.append((data[0] & 15, data[start : start + size]))
        assert len(frames[-1][1]) == size
        data = data[start + size :]
    return frames


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_every_length_form_is_encoded(size: int) -> None:
    assert _decode(encode(b"x" * size)) == [(TEXT, b"x" * size)]


@given(st.lists(st.binary(max_size=200)))
def test_several_frames_stand_one_behind_the_other(payloads: list[bytes]) -> None:
    assert _decode(encode_all(payloads)) == [(TEXT, payload) for payload in payloads]


def _client() -> tuple[Client, Recorder]:
    transport = Recorder()
    return Client(1, "127.0.0.1", "/ws", 0, cast("asyncio.Transport", transport)), transport


def test_closing_sends_what_waits_and_then_the_reason() -> None:
    client, transport = _client()
    client.put(b"last")

    client.close(1008, "enough", 5)
    client.close(1001, "again", 6)

    assert _decode(transport.written) == [(TEXT, b"last"), (CLOSE, b"\x03\xf0enough")]
    assert (client.closed_ms, client.reason) == (5, "1008 enough")


def test_a_cut_falls_inside_the_last_frame() -> None:
    client, transport = _client()
    first, last = encode(b"first"), encode(b"last")
    client.put(b"first")
    client.put(b"last")

    hidden = client.cut(5)

    assert transport.written + hidden == first + last
    assert len(first) < len(transport.written) < len(first + last)
    assert transport.ended == "closed"


def test_a_pong_answers_its_ping_and_all_before_it() -> None:
    client, _ = _client()
    client.pings.extend([(1, b"1"), (2, b"2"), (3, b"3")])

    client.pong(b"9")
    assert len(client.pings) == 3
    client.pong(b"2")
    assert list(client.pings) == [(3, b"3")]


def test_a_ping_is_a_frame_of_its_own_kind() -> None:
    assert _decode(encode(b"1700000000000", PING)) == [(PING, b"1700000000000")]
