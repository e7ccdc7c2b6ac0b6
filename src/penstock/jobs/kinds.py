"""The port of job kinds: one class per kind, which owns all that is particular to its jobs.

The class itself says what its jobs work on (the target), where they stand (the cursor), how often
and how urgently they run. An instance of it, built with the dependencies of a worker, runs them.
The store keeps target and cursor as documents, and nothing outside of the class reads their fields.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import UnionType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast, get_args

import msgspec
from msgspec import Struct

from penstock.errors import BadJob, MalformedSymbol
from penstock.jobs.model import Cursor, Job
from penstock.jobs.run import JobRun
from penstock.jobs.schedule import GAP
from penstock.market.symbol import Symbol

_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)
T = TypeVar("T", bound=Struct)
C = TypeVar("C", bound=Struct)


class Market(NamedTuple):
    """The market of a target, by which jobs are listed; None where it has none."""

    symbol: str | None = None
    """Unified: BTC/USDT."""
    timeframe: str | None = None


def unified_symbol(text: str) -> str:
    """A symbol that a client named, as targets have it.

    Raises:
        BadJob: it is not a spelling of any symbol.
    """
    try:
        return Symbol.parse(text).unified
    except MalformedSymbol as error:
        raise BadJob("symbol", str(error).rstrip(".")) from error


class RequestRate(NamedTuple):
    """How many requests of a job fit into one window of the exchange's tightest limit."""

    requests: int = 1
    window_ms: int = 0


class JobKind(ABC, Generic[T, C]):
    """One kind of jobs."""

    name: ClassVar[str]
    """The ``type`` of its jobs."""
    priority: ClassVar[int]
    """The default; lower runs first."""
    claimed_first: ClassVar[bool] = False
    """Whether its jobs run before all other due jobs, whatever their priority."""
    target_type: ClassVar[type[Struct] | UnionType]
    """One type, or several that differ in their fields …"""
    cursor_type: ClassVar[type[Struct] | UnionType] = Cursor
    """… and so for cursors."""

    @classmethod
    @abstractmethod
    def target(cls, market: Market, cursor: C) -> T:
        """The target of a job for a market, as a client named it, from a cursor.

        Of jobs that are live, no two of one exchange and kind have equal targets.

        Raises:
            BadJob: such a job is not possible.
        """

    @classmethod
    def check_exchange(cls, exchange_id: str, target: T) -> None:
        """Check that an exchange can serve a target; one that is not known here is not checked.

        Raises:
            BadJob: it cannot.
        """

    @classmethod
    def market(cls, target: T) -> Market:  # noqa: ARG003
        """The market of a target."""
        return Market()

    @classmethod
    def span(cls, target: T, cursor: C) -> tuple[int, int] | None:  # noqa: ARG003
        """The range [first, end) that a job has yet to do; None: only equal targets conflict.

        Live jobs of one kind, market and channel never share a part of their ranges.
        """
        return None

    @classmethod
    def channel(cls, target: T) -> str:  # noqa: ARG003
        """The channel of the records that the range counts, if jobs of a market differ in it."""
        return ""

    @classmethod
    def interval_ms(cls, target: T) -> int | None:  # noqa: ARG003
        """The default interval of a job that repeats; None: it runs until it is done."""
        return None

    @classmethod
    def ended(cls, cursor: C) -> C:
        """The cursor of a job that is done."""
        return cursor

    @classmethod
    def rows_left(cls, job: Job) -> float:  # noqa: ARG003
        """How many rows a job has yet to fetch, as far as it is known."""
        return 0.0

    @abstractmethod
    async def run(self, job_run: JobRun[T, C]) -> bool:
        """Work until there is nothing more to do now, or ``job_run.save`` returns False.

        A job run is a job that no other worker holds. Work page by page: make a page durable, then
        move the cursor past it with ``job_run.save``. Exceptions are left to the worker, which
        decides about a retry. The run may be cancelled at any await; the next one continues from
        what was last saved. Several runs take place at a time.

        Returns whether there is nothing more to do.
        """

    @abstractmethod
    async def request_rate(self, job: Job) -> RequestRate:
        """How many requests of a job fit into a window of the exchange's limit.

        The worker asks when there was no budget for a run: of the jobs that wait, only so many are
        due in each window.

        Raises:
            PenstockError: it is not known now.
        """

    @classmethod
    def read_cursor(cls, given: Any) -> C:
        """A cursor from a client's document, or from one of its own type.

        Raises:
            BadJob: it is invalid.
        """
        try:
            return cast("C", as_form(msgspec.to_builtins(given), cls.cursor_type))
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at `$.")
            if unknown := _UNKNOWN.search(problem):
                raise BadJob(unknown[1], "there is no such field") from error
            raise BadJob(".".join(filter(None, ("cursor", path.rstrip("`")))), problem) from error

    @classmethod
    def claim_priority(cls, priority: int) -> int:
        """The priority by which its jobs are claimed."""
        return GAP if cls.claimed_first else priority


AnyKind = type[JobKind[Any, Any]]


def forms(type_: type[Struct] | UnionType) -> tuple[type[Struct], ...]:
    """The types of a target or cursor."""
    return get_args(type_) or (cast("type[Struct]", type_),)


def as_form(document: Any, type_: type[Struct] | UnionType) -> Struct:
    """A document as the first type that has all its fields; if none has, as the first.

    Raises:
        ValidationError: it does not fit.
    """
    if isinstance(type_, type):
        return msgspec.convert(document, type_)
    chosen = forms(type_)
    if isinstance(document, Mapping):
        for each in chosen:
            if document.keys() <= {field.encode_name for field in msgspec.structs.fields(each)}:
                return msgspec.convert(document, each)
    return msgspec.convert(document, chosen[0])
