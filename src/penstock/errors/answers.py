"""What an exchange answers when it does not answer what was asked."""

from penstock.errors.base import PenstockError


class ExchangeError(PenstockError):
    """The exchange answered, and the answer was no; ``status`` is HTTP's, where there was one."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class RateLimited(ExchangeError):
    """Too fast, or the wait would be longer than anybody cares to wait."""

    def __init__(self, reason: str, *, retry_at_ms: int, status: int | None = None) -> None:
        self.retry_at_ms = retry_at_ms
        super().__init__(f"{reason}. Ask again at {retry_at_ms} (ms, UTC).", status=status)


class WaitTimedOut(RateLimited, TimeoutError):
    """No room came, or could come, within the time the caller would wait. Nothing was spent."""


class Banned(ExchangeError):
    """The exchange shut this address out."""

    def __init__(self, exchange: str, *, until_ms: int, status: int, words: str = "") -> None:
        self.until_ms = until_ms
        super().__init__(
            f"{exchange} shut this address out until {until_ms} (ms, UTC); nothing is sent before."
            f" It said: {words or 'nothing'}",
            status=status,
        )


class BadRequest(ExchangeError):
    """The exchange understood, and asking the same again will not help."""

    def __init__(self, request: str, *, status: int, code: int | str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(f"{request} was refused: {message} (code {code})", status=status)


class ExchangeUnreachable(PenstockError):
    """No answer at all."""


class NeverSent(ExchangeUnreachable):
    """It did not leave this machine."""


class NoAnswer(ExchangeUnreachable):
    """It may have arrived; nobody here knows."""


class UnexpectedAnswer(PenstockError):
    """An answer that is not what the exchange's documentation says."""
