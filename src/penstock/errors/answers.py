"""Errors of requests to an exchange."""

from penstock.errors.base import PenstockError


class ExchangeError(PenstockError):
    """The exchange rejected the request; ``status`` is the HTTP status, where there was one."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class RateLimited(ExchangeError):
    """Too fast, or the wait would be too long."""

    def __init__(self, reason: str, *, retry_at_ms: int, status: int | None = None) -> None:
        self.retry_at_ms = retry_at_ms
        super().__init__(f"{reason}. Retry at {retry_at_ms} (Unix time in ms).", status=status)


class WaitTimedOut(RateLimited, TimeoutError):
    """No tokens were, or could be, available within the caller's timeout. None were used."""


class CircuitOpen(ExchangeError):
    """Requests to the exchange failed, so for some time none are sent."""

    def __init__(self, exchange: str, *, retry_at_ms: int, reason: str) -> None:
        self.retry_at_ms = retry_at_ms
        super().__init__(
            f"Nothing is sent to {exchange}: its circuit breaker is open ({reason}). Retry at"
            f" {retry_at_ms} (Unix time in ms)."
        )


class Banned(ExchangeError):
    """The exchange banned this address."""

    def __init__(self, exchange: str, *, until_ms: int, status: int, words: str = "") -> None:
        self.until_ms = until_ms
        super().__init__(
            f"{exchange} banned this address until {until_ms} (Unix time in ms). Nothing is sent"
            f" before then. Response: {words or 'empty'}",
            status=status,
        )


class BadRequest(ExchangeError):
    """The exchange rejected the request, and a retry of the same will not help."""

    def __init__(self, request: str, *, status: int, code: int | str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(f"{request} was refused: {message} (code {code})", status=status)


class ExchangeUnreachable(PenstockError):
    """No answer at all."""


class NeverSent(ExchangeUnreachable):
    """The request did not leave this machine."""


class NoAnswer(ExchangeUnreachable):
    """The request may have arrived, or not."""


class UnexpectedAnswer(PenstockError):
    """An answer that does not match the exchange's documentation."""


class BadFile(PenstockError):
    """A published file is damaged, or not the one that its name says."""

    def __init__(self, path: str, problem: str, *, line: int = 0) -> None:
        self.path, self.problem, self.line = path, problem, line
        where, effect = path, "Nothing was recorded from it"
        if line:
            where, effect = f"{path}, line {line}", "Nothing was recorded from this row on"
        remedy = "Replace the file, or remove it: what no file has is requested from the exchange"
        super().__init__(f"{where}: {problem}. {effect}. {remedy}.")
