"""Draws pseudo-random numbers that are the same on every machine and in every version.

The simulator keeps no generator state. Each number is a hash of its purpose, so any part of a
market can be computed at any time and in any order. Only integers, SHAKE-128 and little-endian
unpacking are used: the ``random`` module guarantees its sequence for ``random()`` alone, and floats
differ between maths libraries.
"""

from __future__ import annotations

from hashlib import shake_128
from struct import unpack

MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """Scatter an integer over 64 bits (the finaliser of splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def draws(count: int, *purpose: str | int) -> tuple[int, ...]:
    """``count`` 64-bit integers that depend only on their purpose.

    A larger count only appends numbers.
    """
    # The separator distinguishes ("a", "bc") from ("ab", "c").
    name = "\x1f".join(map(str, purpose)).encode()
    return unpack(f"<{count}Q", shake_128(name).digest(8 * count))


def key(*purpose: str | int) -> int:
    """One 64-bit integer for a purpose, to be mixed with small counters."""
    return draws(1, *purpose)[0]
