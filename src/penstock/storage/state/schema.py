"""Tables: what the state consists of, declared once as data.

A table holds documents. Those fields by which documents are found, ordered or kept apart are named
here with their type; the rest of a document is nobody's business but its owner's. Each backend
makes of this what it makes best. A schema is the history of its tables: version *n* is the first
*n* steps, every step is safe to take twice, and a store remembers how many it has taken.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

FieldType = Literal["text", "int"]


@dataclass(frozen=True, slots=True)
class Unique:
    """No two documents agree in all these fields; a missing one counts as equal to missing."""

    fields: tuple[str, ...]
    among: tuple[str, tuple[str, ...]] | None = None
    """(field, values): only documents with one of these values are kept apart."""


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of documents. A dot in a field's name leads into a nested object."""

    name: str
    fields: Mapping[str, FieldType]
    unique: tuple[Unique, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    counted: tuple[str, ...] = ()
    """The store always knows how many documents have which values of these fields together."""
    dropped: tuple[str, ...] = ()
    """Indexes of earlier versions that are no longer wanted, by name."""

    def type_of(self, field: str) -> FieldType:
        """The type of a field by which documents are found; ``id`` is one of every table."""
        if field != "id" and field not in self.fields:
            raise ValueError(f"{self.name}: {field!r} is not among the declared fields")
        return self.fields.get(field, "text")

    def kept_apart(self) -> set[str]:
        """The fields that decide whether two documents may stand side by side."""
        deciding = {field for rule in self.unique for field in rule.fields}
        return deciding | {rule.among[0] for rule in self.unique if rule.among}


def index_name(table: Table, fields: Sequence[str], *, unique: bool = False) -> str:
    """A name that says what is indexed, within the length databases allow."""
    name = "_".join([table.name, *fields]).replace(".", "_")[:48]
    return f"{name}_{'only' if unique else 'index'}"


def pinned_index(
    table: Table, equal: Collection[str], order: Sequence[str]
) -> tuple[str, ...] | None:
    """The index that finds documents with given values of some fields already in this order."""
    for fields in table.indexes:
        given = len(list(takewhile(lambda field: field in equal, fields)))
        if order and given and fields[given:] == (*order, "id"):
            return fields
    return None


Schema = Sequence[Sequence[Table]]
"""Step by step, the tables to create; one that is there already gains what is new in it."""

CONNECTORS = Table(
    name="connectors",
    fields={"exchange_id": "text", "status": "text"},
    unique=(Unique(("exchange_id",)),),
    indexes=(("status",),),
)

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
    unique=(
        Unique(
            ("exchange_id", "type", "symbol", "timeframe", "target_key"),
            among=("status", ("active", "paused")),
        ),
    ),
    indexes=(
        ("status", "state", "next_run_at", "priority"),
        ("exchange_id", "type", "symbol", "timeframe"),
        ("status", "exchange_id", "type", "claim_priority", "wake_at", "id"),
    ),
    counted=("exchange_id", "type", "claim_priority", "status", "state"),
    dropped=("jobs_status_rank_wake_at_index", "jobs_exchange_id_type_symbol_timeframe_only"),
)

JOB_SLOTS = Table(
    name="job_slots",
    fields={"exchange_id": "text", "number": "int", "until": "int", "fence": "int"},
)

COUNTERS = Table(name="counters", fields={"exchange_id": "text"})

MARKETS = Table(name="markets", fields={"exchange_id": "text"}, unique=(Unique(("exchange_id",)),))

SCHEMA: Schema = (
    (CONNECTORS, JOBS),
    (JOBS,),
    (MARKETS,),
    # Jobs are counted, claimed queue by queue, and kept apart by their target too.
    (JOBS, JOB_SLOTS, COUNTERS),
    (),  # budgets know when their windows end
    (),  # and keep the later end where askers disagree
)
