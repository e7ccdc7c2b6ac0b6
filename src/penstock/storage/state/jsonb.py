# ruff: noqa: S608 (names of tables and fields are the schema's)
"""Indexes, field access and patches of documents in PostgreSQL's ``jsonb``.

The expression of a patch depends on its shape alone, so that the database can reuse its plan. The
values are passed separately, as a list.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from penstock.storage.state.documents import Add, Patch, StoreNow
from penstock.storage.state.schema import FieldType, Table, index_name, older_writer

Kind = Literal["set", "add", "now"]


def field(path: str, type_: FieldType) -> str:
    """A declared field, as an expression that can be indexed."""
    if path == "id":
        return path
    text = f"(document #>> '{{{path.replace('.', ',')}}}')"
    return f'({text} COLLATE "C")' if type_ == "text" else f"({text}::bigint)"


def creation(table: Table) -> list[str]:
    """The statements that create a table, or add to it what is new."""
    name = f"penstock_{table.name}"
    made = [
        f'CREATE TABLE IF NOT EXISTS {name} (id text COLLATE "C" PRIMARY KEY,'
        " version bigint NOT NULL, document jsonb NOT NULL) WITH (fillfactor = 70)"
    ]
    made += [f"DROP INDEX IF EXISTS penstock_{name}" for name in table.dropped]
    for fields in table.indexes:
        # In the sort order of queries; an id is never missing.
        listed = ", ".join(
            path if path == "id" else f"{field(path, table.type_of(path))} NULLS FIRST"
            for path in fields
        )
        index = f"penstock_{index_name(table, fields)}"
        made.append(f"CREATE INDEX IF NOT EXISTS {index} ON {name} ({listed})")
    for rule in table.unique:
        # As one text, because SQL treats NULLs as different; it is also faster to compare.
        listed = " || ".join(f"quote_nullable({field(path, 'text')})" for path in rule.fields)
        only = ""
        if rule.among:
            values = ", ".join(f"'{value}'" for value in rule.among[1])
            only = f" WHERE {field(rule.among[0], 'text')} IN ({values})"
        index = f"penstock_{index_name(table, rule.fields, unique=True)}"
        made.append(f"CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {name} (({listed})){only}")
    return [*made, *_requiring(table), *_counting(table)]


def _requiring(table: Table) -> list[str]:
    """The statements that reject new documents without a required field.

    Not a constraint, which would also reject the changes of documents that exist.
    """
    made: list[str] = []
    for path in table.required:
        name, rule = f"penstock_{table.name}", f"penstock_{table.name}_needs_{path}"
        made += [
            f"CREATE OR REPLACE FUNCTION {rule}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$BEGIN RAISE EXCEPTION '{older_writer(table, path)}'; END$$",
            f"DROP TRIGGER IF EXISTS {rule} ON {name}",
            f"CREATE TRIGGER {rule} BEFORE INSERT ON {name} FOR EACH ROW"
            f" WHEN (NEW.document #> '{{{path.replace('.', ',')}}}' IS NULL)"
            f" EXECUTE FUNCTION {rule}()",
        ]
    return made


def _counting(table: Table) -> list[str]:
    """The statements that maintain counts, starting with the existing documents.

    Each connection adds to a row of its own, or one that it shares with few others, so that
    counting rarely waits for the end of another transaction.
    """
    if not table.counted:
        return []
    name, counts = f"penstock_{table.name}", f"penstock_{table.name}_counts"
    listed = ", ".join(f"document #> '{{{path.replace('.', ',')}}}'" for path in table.counted)
    key = f'jsonb_build_array({listed})::text COLLATE "C"'
    # Sorted, so that transactions that share rows queue instead of deadlocking.
    add = (
        f"INSERT INTO {counts} SELECT key, pg_backend_pid() % {_SHARDS}, sum(change) FROM (CHANGES)"
        " AS changes(key, change) GROUP BY key HAVING sum(change) <> 0 ORDER BY key"
        f" ON CONFLICT (key, shard) DO UPDATE SET count = {counts}.count + excluded.count;"
    )
    more, less = f"SELECT {key}, 1 FROM came", f"SELECT {key}, -1 FROM went"
    made = [
        f'CREATE TABLE IF NOT EXISTS {counts} (key text COLLATE "C", shard int,'
        " count bigint NOT NULL, PRIMARY KEY (key, shard)) WITH (fillfactor = 50)"
    ]
    for what, came_and_went, changes in (
        ("insert", "NEW TABLE AS came", more),
        ("delete", "OLD TABLE AS went", less),
        ("update", "NEW TABLE AS came OLD TABLE AS went", f"{more} UNION ALL {less}"),
    ):
        rule = f"{name}_count_{what}"
        made += [
            f"CREATE OR REPLACE FUNCTION {rule}() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$BEGIN {add.replace('CHANGES', changes)} RETURN NULL; END$$",
            f"DROP TRIGGER IF EXISTS {rule} ON {name}",
            f"CREATE TRIGGER {rule} AFTER {what} ON {name} REFERENCING {came_and_went}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {rule}()",
        ]
    return [
        *made,
        f"DELETE FROM {counts}",
        f"INSERT INTO {counts} SELECT {key}, 0, count(*) FROM {name} GROUP BY 1",
    ]


_SHARDS = 8


class Shape(NamedTuple):
    """A patch without its values: the operation on each field that is not simply set."""

    paths: tuple[str, ...]
    kinds: tuple[Kind, ...]


def spell(patch: Patch) -> tuple[Shape, list[Any]]:
    """Split a patch into its shape and its values.

    The values begin with an object of all fields that are simply set; the others follow in order.
    """
    plain: dict[str, Any] = {}
    paths: list[str] = []
    kinds: list[Kind] = []
    values: list[Any] = [plain]
    entered = {path.partition(".")[0] for path in patch if "." in path}
    for path, value in patch.items():
        given = type(value)
        if given is Add:
            kinds.append("add")
            values.append(value.amount)
        elif given is StoreNow:
            kinds.append("now")
            values.append(value.plus_ms)
        elif path in entered or "." in path:
            kinds.append("set")
            values.append(value)
        else:
            plain[path] = value
            continue
        paths.append(path)
    return Shape(tuple(paths), tuple(kinds)), values


@lru_cache(256)
def expression(shape: Shape, values: str, now: str) -> str:
    """The SQL expression of the patched ``document``; ``values`` and ``now`` are columns."""
    changed, tree, plain = "document", _Tree(), f"({values} -> 0)"
    for number, (path, kind) in enumerate(zip(*shape, strict=True), 1):
        change = (kind, f"({values} {'->' if kind == 'set' else '->>'} {number})")
        if not _put(tree, path.split("."), change):
            # It changes a part of what the same patch sets, so that is applied first.
            changed, tree = f"({changed} || {_changes(tree, changed, now)})", _Tree()
            _put(tree, path.split("."), change)
    # The changes are combined first: a document is long, and is copied only once.
    return (
        f"{changed} || ({plain} || {_changes(tree, changed, now)})"
        if tree
        else f"{changed} || {plain}"
    )


class _Tree(dict[str, "tuple[Kind, str] | _Tree"]):
    """By name: the change of a field, or of the fields within it."""


def _put(tree: _Tree, path: Sequence[str], change: tuple[Kind, str]) -> bool:
    *outer, name = path
    for step in outer:
        within = tree.setdefault(step, _Tree())
        if not isinstance(within, _Tree):
            return False
        tree = within
    if isinstance(tree.get(name), _Tree):
        return False
    tree[name] = change
    return True


def _changes(tree: _Tree, found: str, now: str) -> str:
    pairs = []
    for name, change in tree.items():
        key = "'" + name.replace("'", "''") + "'"
        match change:
            case _Tree():
                there = f"({found} -> {key})"
                inner = f"CASE jsonb_typeof{there} WHEN 'object' THEN {there} ELSE '{{}}' END"
                value = f"{inner} || {_changes(change, inner, now)}"
            case ("add", amount):
                value = f"coalesce(({found} ->> {key})::bigint, 0) + {amount}::bigint"
            case ("now", plus_ms):
                value = f"{now} + {plus_ms}::bigint"
            case (_, value):
                pass
        pairs.append(f"{key}, {value}")
    return f"jsonb_build_object({', '.join(pairs)})"
