"""Converts ccxt's errors to penstock's.

Errors that ccxt raises for a response are detected inside the gateway, so that a stop blocks the
gate like any other. Other errors of ccxt are converted to penstock's.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import (
    BadRequest,
    ExchangeError,
    ExchangeUnreachable,
    PenstockError,
    RateLimited,
    UnexpectedAnswer,
    UnknownSymbol,
)
from penstock.exchanges.base import ApiError, Meaning

_MEANINGS: dict[str, Meaning] = {
    "RateLimitExceeded": "too_fast",
    "DDoSProtection": "too_fast",
    "ExchangeNotAvailable": "failed",
    "RequestTimeout": "failed",
}
"""By the class that ccxt raises, or a base class; all others are ``refused``."""
CONFUSED = (TypeError, LookupError, ValueError, AttributeError, ArithmeticError)
"""What ccxt raises for a response of an unexpected form."""
_STOP_MS = 60_000

Judge = Callable[[int, Mapping[str, str], bytes], ApiError | None]


class Parser:
    """Parses the responses to one request, each only once."""

    def __init__(self) -> None:
        self._body, self._found = b"", None

    def parse(self, body: bytes) -> Any:
        """A response as ccxt needs it; numbers with a point stay texts, so that no digit is lost.

        None if it is not JSON.
        """
        if body is not self._body:
            self._body = body
            try:
                self._found = json.loads(body, parse_float=str)
            except (ValueError, RecursionError):
                self._found = None
        return self._found


def judge_of(client: Any, answers: Parser, asked: tuple[str, str, object, object]) -> Judge:
    """A function that returns the error in a response, as detected by ccxt.

    ``asked`` is the request: address, method, headers and body.
    """
    url, method, headers, body = asked

    def judge(status: int, got: Mapping[str, str], answer: bytes) -> ApiError | None:
        text = answer.decode(errors="replace").strip()
        try:
            client.handle_errors(
                status, "", url, method, dict(got), text, answers.parse(answer), headers, body
            )
        except CONFUSED:
            return None  # then only the status counts
        except Exception as error:
            if not is_ccxts(error):
                raise
            meaning = _by_status(status, error) or meaning_of(error)
            return ApiError(type(error).__name__, _words(error), meaning=meaning)
        return None

    return judge


def _by_status(status: int, error: Exception) -> Meaning | None:
    """The meaning of the status, where it is clearer than ccxt's error class."""
    if status == 429:
        return "too_fast"
    return "failed" if status >= 500 and type(error).__name__ == "ExchangeError" else None


def is_ccxts(error: BaseException) -> bool:
    """Whether it is one of ccxt's errors, by name, so that ccxt need not be imported."""
    return any(each.__name__ == "BaseError" for each in type(error).__mro__)


def meaning_of(error: Exception) -> Meaning:
    """The meaning of one of ccxt's errors."""
    named = [_MEANINGS[each] for each in _names(error) if each in _MEANINGS]
    return named[0] if named else "refused"


def as_penstock_error(error: Exception, exchange: str, now_ms: int) -> PenstockError:
    """The penstock error for an error that ccxt raised."""
    names, words = _names(error), _words(error)
    if isinstance(error, BadRequest):
        return _unlisted(exchange, error.message) if error.code == "BadSymbol" else error
    if not is_ccxts(error):
        return UnexpectedAnswer(f"ccxt could not read what {exchange} answered: {error!r}")
    if meaning_of(error) == "too_fast":
        return RateLimited(
            f"{exchange} blocks this address: {words}", retry_at_ms=now_ms + _STOP_MS
        )
    if "BadSymbol" in names:
        return _unlisted(exchange, words)
    if {"BadRequest", "NotSupported", "ArgumentsRequired"} & set(names):
        return BadRequest(f"A call to {exchange}", status=0, code=names[0], message=words)
    if "BadResponse" in names:
        return UnexpectedAnswer(f"{exchange}: {words}")
    if "ExchangeNotAvailable" not in names and "NetworkError" in names:
        return ExchangeUnreachable(f"No answer from {exchange}: {words}")
    return ExchangeError(f"{exchange} would not answer: {names[0]}: {words}")


def _unlisted(exchange: str, words: str) -> UnknownSymbol:
    """The error for an unlisted symbol: the end of ccxt's message, or an exchange's whole one."""
    _, is_ccxts_own, symbol = words.partition(" does not have market symbol ")
    return UnknownSymbol(exchange, symbol if is_ccxts_own else words)


def _names(error: Exception) -> list[str]:
    return [each.__name__ for each in type(error).__mro__]


def _words(error: Exception) -> str:
    return str(error)[:300]
