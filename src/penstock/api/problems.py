"""Error responses of the API in the format of RFC 9457, with advice on how to fix them.

One table maps penstock's errors to statuses; the framework's own errors have the same format.
Unexpected errors are a 500 with an ``id``, which is logged with the traceback.
"""

import re
import traceback
from collections.abc import Callable, Mapping
from http import HTTPStatus
from secrets import token_hex
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from msgspec import Struct

from penstock.clock import Clock
from penstock.errors import (
    AlreadyExists,
    BadJob,
    BadLimit,
    BadQuery,
    BadTime,
    CircuitOpen,
    ConnectorInUse,
    ConnectorPaused,
    ExchangeError,
    ExchangeUnreachable,
    GapNotFillable,
    JobEnded,
    JobRunning,
    MalformedSymbol,
    MissingExtra,
    NoData,
    NoDataset,
    NotCollected,
    NotLocked,
    PenstockError,
    RateLimited,
    StorageError,
    TooManyMarkets,
    UnexpectedAnswer,
    UnknownConnector,
    UnknownExchange,
    UnknownGap,
    UnknownInterval,
    UnknownJob,
    UnknownKind,
    UnknownSymbol,
    VersionChanged,
)
from penstock.telemetry import Listener
from penstock.web.facts import RequestCrashed

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
"""The Retry-After of errors without a retry time of their own."""

AnyRequest = Request[Any, Any, Any]


class FieldProblem(Struct, frozen=True):
    """The problem with one field; ``field`` is its path, such as ``schedule.interval_ms``."""

    field: str
    problem: str


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error in the format of RFC 9457."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    errors: tuple[FieldProblem, ...] = ()
    """The invalid fields of the request."""
    near: tuple[str, ...] = ()
    """Similar names that exist."""
    existing_id: str | None = None
    """The id of the existing document that conflicts with the new one."""
    id: str | None = None
    """The id of an unexpected error in the log."""


_STATUS: Mapping[type[PenstockError], int] = {
    UnknownConnector: 404,
    NotCollected: 404,
    NoDataset: 404,
    NoData: 404,
    BadTime: 422,
    BadQuery: 422,
    NotLocked: 404,
    UnknownJob: 404,
    UnknownGap: 404,
    UnknownExchange: 422,
    MissingExtra: 422,
    UnknownSymbol: 422,
    MalformedSymbol: 422,
    UnknownInterval: 422,
    BadLimit: 422,
    BadJob: 422,
    AlreadyExists: 409,
    ConnectorInUse: 409,
    ConnectorPaused: 409,
    JobRunning: 409,
    JobEnded: 409,
    GapNotFillable: 409,
    UnknownKind: 409,
    VersionChanged: 412,
    StorageError: 503,
    TooManyMarkets: 503,
    ExchangeError: 503,
    ExchangeUnreachable: 503,
    UnexpectedAnswer: 503,
}


class ProblemError(HTTPException):
    """An error raised by the API itself."""

    def __init__(
        self, status: int, detail: str, *errors: FieldProblem, near: tuple[str, ...] = ()
    ) -> None:
        super().__init__(detail=detail, status_code=status)
        self.errors, self.near = errors, near


def bad_field(field: str, problem: str, near: tuple[str, ...] = ()) -> ProblemError:
    """Return the error for a well-formed request with an invalid field."""
    return ProblemError(422, f"{field}: {problem}", FieldProblem(field, problem), near=near)


def problem_answer(problem: Problem, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """Return the response for a problem."""
    return Response(
        msgspec.json.encode(problem),
        status_code=problem.status,
        media_type=MEDIA_TYPE,
        headers=dict(headers or {}),
    )


def plain_problem(status: int, detail: str) -> Problem:
    """Return a problem whose title is that of its status."""
    return Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)


def logged_crash(error: Exception, method: str, path: str, listener: Listener) -> Problem:
    """Log an unexpected error, and return the problem that a client receives."""
    id_ = token_hex(8)
    trace = "".join(traceback.format_exception(error))
    listener(RequestCrashed(id=id_, method=method, path=path, error=trace))
    words = f"This is a bug in penstock. The log has details under {id_}."
    return msgspec.structs.replace(plain_problem(500, words), id=id_)


Handler = Callable[[AnyRequest, Any], Response[Any]]


def exception_handlers(
    reporting: Callable[[AnyRequest], tuple[Clock, Listener]],
) -> dict[int | type[Exception], Handler]:
    """Return the handlers that convert exceptions into error responses.

    ``reporting`` returns the clock and the listener of the server that received a request.
    """

    def unforeseen(request: AnyRequest, error: Exception) -> Response[bytes]:
        path, (_, listener) = request.scope["path"], reporting(request)
        return problem_answer(logged_crash(error, str(request.method), path, listener))

    def foreseen(request: AnyRequest, error: PenstockError) -> Response[bytes]:
        status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), None)
        if status is None:
            return unforeseen(request, error)
        clock, _ = reporting(request)
        headers = {"Retry-After": str(_retry_after_s(error, clock))} if status == 503 else {}
        return problem_answer(_problem_of(error, status), headers)

    return {
        HTTPException: _of_http,
        PenstockError: foreseen,
        Exception: unforeseen,
    }


def _of_http(_: AnyRequest, error: HTTPException) -> Response[bytes]:
    status = error.status_code
    phrase = HTTPStatus(status).phrase
    problem = Problem(
        title=phrase,
        status=status,
        detail=error.detail or phrase,
        errors=error.errors if isinstance(error, ProblemError) else (),
        near=error.near if isinstance(error, ProblemError) else (),
    )
    retry = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    return problem_answer(problem, {**retry, **(error.headers or {})})


def _problem_of(error: PenstockError, status: int) -> Problem:
    kind = type(error).__name__
    words = re.findall("[A-Z][a-z]*", kind)
    field = getattr(error, "field", None)
    existing = getattr(error, "existing_id", None)
    return Problem(
        type=f"urn:penstock:{'-'.join(words).lower()}",
        title=" ".join(words).capitalize(),
        status=status,
        detail=str(error),
        errors=(FieldProblem(field, getattr(error, "problem", str(error))),) if field else (),
        near=tuple(getattr(error, "near", ())),
        existing_id=existing,
    )


def _retry_after_s(error: PenstockError, clock: Clock) -> int:
    if isinstance(error, RateLimited | CircuitOpen):
        return max(1, -(-(error.retry_at_ms - clock.now_ms()) // 1000))
    return RETRY_AFTER_S
