"""Reading answers: what every exchange's readers share.

An answer is decoded into what its documentation says or refused whole, and a number is refused
unless it is plain: no sign, no exponent, no NaN.
"""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from penstock.errors import UnexpectedAnswer
from penstock.market.numbers import is_plain

Whole = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Text = Annotated[str, Meta(max_length=64)]
"""A number as text: no price has more digits than that."""

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises over bytes that are not what was expected."""

_MOST_DIGITS = 40
_LONGEST_WORD = 64
# How far the exchange's clock and ours may differ.
_CLOCK_DOUBT_MS = 10_000

T = TypeVar("T")


def decoded(decode: Callable[[bytes], T], body: bytes) -> T:
    """What an answer says.

    Raises:
        UnexpectedAnswer: something else than its documentation does.
    """
    try:
        return decode(body)
    except UNREADABLE as error:
        start = body[:80].decode(errors="replace")
        raise UnexpectedAnswer(f"An answer cannot be read: {error}. It begins {start!r}") from error


def plain_number(text: str) -> str:
    """The same text, which is a plain number.

    Raises:
        UnexpectedAnswer: it is none.
    """
    if not is_plain(text):
        raise UnexpectedAnswer(f"An answer holds {text[:40]!r} where a plain number belongs")
    return text


def step_text(told: object) -> str | None:
    """A step of prices or quantities, without zeros at its end; None if it is not told, or none.

    A listing is worth reading even if a step in it is not.
    """
    try:
        step = Decimal(told) if isinstance(told, str) else None
    except InvalidOperation:
        return None
    if step is None or not step.is_finite() or not step > 0 or abs(step.adjusted()) > _MOST_DIGITS:
        return None
    return f"{step.normalize():f}"


def step_of_digits(digits: object) -> str | None:
    """The step of numbers with so many digits behind the point; None if that is not told."""
    if isinstance(digits, int) and 0 <= digits <= _MOST_DIGITS:
        return f"{Decimal(1).scaleb(-digits):f}"
    return None


def word(told: object) -> str | None:
    """A short word; None if it is not told."""
    return told if isinstance(told, str) and 0 < len(told) <= _LONGEST_WORD else None


def surely_over_ms(received_at_ns: int) -> int:
    """What ended before this was over when the answer was made, however the clocks differ."""
    return received_at_ns // 1_000_000 - _CLOCK_DOUBT_MS
