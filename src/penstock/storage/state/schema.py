"""The tables of the state, declared once as data.

A table holds documents. The fields by which documents are found, ordered or unique are declared
here with their type; the store does not interpret the others. Each backend implements tables in its
own way. A schema is the history of its tables: version *n* is the first *n* steps, every step can
be applied twice, and a store keeps the number of applied steps. A step may need documents in a form
that earlier versions did not write; they are rewritten before it is applied (``migration``).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from penstock.storage.state.job_targets import with_target

FieldType = Literal["text", "int"]


@dataclass(frozen=True, slots=True)
class Unique:
    """No two documents have equal values in all these fields; missing values are equal."""

    fields: tuple[str, ...]
    among: tuple[str, tuple[str, ...]] | None = None
    """(field, values): the rule applies only to documents with one of these values."""


class Rewrite(NamedTuple):
    """How documents of earlier versions get the form that a table needs."""

    patch: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
    """The new values of fields; None: the document has the form."""
    guards: tuple[str, ...]
    """If one of these fields changes meanwhile, the document is read again."""


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of documents. A dot in a field's name addresses a nested field."""

    name: str
    fields: Mapping[str, FieldType]
    unique: tuple[Unique, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    counted: tuple[str, ...] = ()
    """The store maintains the number of documents for each combination of these fields."""
    dropped: tuple[str, ...] = ()
    """Indexes of earlier versions that are to be dropped, by name."""
    required: tuple[str, ...] = ()
    """SQL databases reject a new document without these fields: an older penstock sent it."""
    rewrite: Rewrite | None = None

    def type_of(self, field: str) -> FieldType:
        """The type of a declared field; every table has ``id``."""
        if field != "id" and field not in self.fields:
            raise ValueError(f"{self.name}: {field!r} is not among the declared fields")
        return self.fields.get(field, "text")

    def kept_apart(self) -> set[str]:
        """The fields of the unique rules."""
        deciding = {field for rule in self.unique for field in rule.fields}
        return deciding | {rule.among[0] for rule in self.unique if rule.among}


def index_name(table: Table, fields: Sequence[str], *, unique: bool = False) -> str:
    """A name made of the indexed fields, within the length that databases allow."""
    name = "_".join([table.name, *fields]).replace(".", "_")[:48]
    return f"{name}_{'only' if unique else 'index'}"


def older_writer(table: Table, path: str) -> str:
    """Why a document without a required field is rejected."""
    return f"a document of {table.name} without {path}: an older penstock sent it, restart that"


def pinned_index(
    table: Table, equal: Collection[str], order: Sequence[str]
) -> tuple[str, ...] | None:
    """The index that yields documents with given values of some fields in this order."""
    for fields in table.indexes:
        given = len(list(takewhile(lambda field: field in equal, fields)))
        if order and given and fields[given:] == (*order, "id"):
            return fields
    return None


Schema = Sequence[Sequence[Table]]
"""The tables to create, step by step; what is new is added to tables that exist."""

CONNECTORS = Table(
    name="connectors",
    fields={"exchange_id": "text", "status": "text"},
    unique=(Unique(("exchange_id",)),),
    indexes=(("status",),),
)

_LIVE = ("status", ("active", "paused"))
_OLD_KEY = ("exchange_id", "type", "symbol", "timeframe", "target_key")

JOBS = Table(
    name="jobs",
    fields={
        "exchange_id": "text",
        "type": "text",
        "symbol": "text",
        "timeframe": "text",
        "status": "text",
        "state": "text",
        "next_run_at": "int",
        "priority": "int",
        "fence": "int",
        "lock.lock_until": "int",
        "wake_at": "int",
        "claim_priority": "int",
        "target_key": "text",
        "updated_at": "int",
    },
    unique=(Unique(("exchange_id", "type", "target_key"), among=_LIVE),),
    indexes=(
        ("status", "state", "next_run_at", "priority"),
        ("exchange_id", "type", "symbol", "timeframe"),
        ("status", "exchange_id", "type", "claim_priority", "wake_at", "id"),
    ),
    counted=("exchange_id", "type", "claim_priority", "status", "state"),
    dropped=(
        "jobs_status_rank_wake_at_index",
        "jobs_exchange_id_type_symbol_timeframe_only",
        "jobs_exchange_id_type_symbol_timeframe_target_ke_only",
    ),
    required=("target",),
    # A client's edit of the target, and each claim, change the fence.
    rewrite=Rewrite(with_target, guards=("fence",)),
)

# Before jobs had targets.
_OLD_JOBS = replace(
    JOBS,
    unique=(Unique(_OLD_KEY, among=_LIVE),),
    dropped=JOBS.dropped[:2],
    required=(),
    rewrite=None,
)

JOB_SLOTS = Table(
    name="job_slots",
    fields={"exchange_id": "text", "number": "int", "until": "int", "fence": "int"},
)

COUNTERS = Table(name="counters", fields={"exchange_id": "text"})

MARKETS = Table(name="markets", fields={"exchange_id": "text"}, unique=(Unique(("exchange_id",)),))

PROCESSES = Table(
    name="processes",
    fields={"state": "text", "seen_at": "int"},
    indexes=(("seen_at",),),
)

COVERAGE = Table(
    name="coverage",
    fields={"exchange": "text", "channel": "text", "symbol": "text", "slot": "text"},
    indexes=(("exchange", "channel", "symbol"),),
)

GAPS = Table(
    name="gaps",
    fields={
        "exchange": "text",
        "channel": "text",
        "symbol": "text",
        "by": "text",
        "state": "text",
        "first": "int",
        "last": "int",
        "job_id": "text",
        "since_ms": "int",
        "until_ms": "int",
    },
    indexes=(
        ("exchange", "channel", "symbol", "by", "last"),
        ("exchange", "channel", "symbol", "by", "until_ms"),
        ("state", "exchange"),
    ),
    counted=("exchange", "state"),
)

# Before gaps were counted.
_OLD_GAPS = replace(GAPS, counted=())

SEALS = Table(
    name="seals",
    fields={"log_id": "text", "slot": "text", "channel": "text"},
    indexes=(("log_id", "slot"),),
)

BREAKERS = Table(name="breakers", fields={"exchange_id": "text"})

SYMBOLS = Table(
    name="symbols",
    fields={"exchange": "text", "symbol": "text"},
    indexes=(("exchange", "symbol"),),
)

LOCKS = Table(name="locks", fields={"until": "int", "token": "int"})

STATISTICS = Table(name="statistics", fields={"at": "int"})

ALERTS = Table(
    name="alerts",
    fields={"state": "text", "changed_at": "int"},
    indexes=(("changed_at",),),
)

CHECKPOINTS = Table(
    name="checkpoints", fields={"log_id": "text", "backup": "text", "state": "text"}
)

BACKUPS = Table(name="backups", fields={"log_id": "text"})

SCHEMA: Schema = (
    (CONNECTORS, _OLD_JOBS),
    (_OLD_JOBS,),
    (MARKETS,),
    # Jobs are counted, claimed queue by queue, and unique by their target too.
    (_OLD_JOBS, JOB_SLOTS, COUNTERS),
    (),  # budgets store the end of their windows
    (),  # and keep the later end if processes disagree
    (),  # and begin no window before the one before is over
    (PROCESSES,),
    # First no more jobs without a target are accepted, then all get one, which makes them unique.
    (Table(name=JOBS.name, fields=JOBS.fields, required=JOBS.required),),
    (JOBS,),
    (COVERAGE, _OLD_GAPS),
    (SEALS,),
    (BREAKERS,),
    (LOCKS,),
    (SYMBOLS,),
    (STATISTICS, ALERTS),
    (CHECKPOINTS, BACKUPS),
    (GAPS,),  # gaps are counted
    (GAPS,),  # and found by time
)
