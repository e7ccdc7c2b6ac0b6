"""Helpers for reading REST responses, shared by all exchanges.

A response is decoded as documented or rejected as a whole. A number is rejected unless it is plain:
no sign, no exponent, no NaN.
"""

from collections.abc import Callable, Collection, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.errors import UnexpectedAnswer
from penstock.market.numbers import is_plain

Whole = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
IdOrNone = Annotated[int, Meta(ge=-1, le=(1 << 63) - 1)]
"""-1 where there are no trades."""
Text = Annotated[str, Meta(max_length=64)]
"""A number as text; no price has more digits than that."""

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for bytes that do not have the expected form."""

_MOST_DIGITS = 40
_LONGEST_WORD = 64
# The most by which the exchange's clock and the local clock may differ.
_CLOCK_DOUBT_MS = 10_000

T = TypeVar("T")


def decoded(decode: Callable[[bytes], T], body: bytes) -> T:
    """The decoded body of a response.

    Raises:
        UnexpectedAnswer: the body is not as documented.
    """
    try:
        return decode(body)
    except UNREADABLE as error:
        start = body[:80].decode(errors="replace")
        raise UnexpectedAnswer(f"An answer cannot be read: {error}. It begins {start!r}") from error


def only(found: Collection[T]) -> T:
    """The only element.

    Raises:
        UnexpectedAnswer: there are none, or several.
    """
    if len(found) != 1:
        raise UnexpectedAnswer(f"One was asked for, and {len(found)} were answered")
    return next(iter(found))


def plain_number(text: str) -> str:
    """The same text, if it is a plain number.

    Raises:
        UnexpectedAnswer: it is not.
    """
    if not is_plain(text):
        raise UnexpectedAnswer(f"An answer holds {text[:40]!r} where a plain number belongs")
    return text


def plain_numbers(texts: Sequence[str | UnsetType]) -> list[str | None]:
    """The same for several; None for UNSET."""
    return [None if text is UNSET else plain_number(text) for text in texts]


def step_text(value: object) -> str | None:
    """A step of prices or quantities, without trailing zeros; None if it is missing or invalid.

    An invalid step does not invalidate the listing.
    """
    try:
        step = Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        return None
    if step is None or not step.is_finite() or not step > 0 or abs(step.adjusted()) > _MOST_DIGITS:
        return None
    return f"{step.normalize():f}"


def step_of_digits(digits: object) -> str | None:
    """The step of numbers with this many decimals; None if the count is missing or invalid."""
    if isinstance(digits, int) and 0 <= digits <= _MOST_DIGITS:
        return f"{Decimal(1).scaleb(-digits):f}"
    return None


def word(value: object) -> str | None:
    """A short word, such as a status; None if it is missing or invalid."""
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST_WORD else None


def surely_over_ms(received_at_ns: int) -> int:
    """The time before which intervals had certainly ended when the response was made.

    It allows for the difference of the clocks.
    """
    return received_at_ns // 1_000_000 - _CLOCK_DOUBT_MS
