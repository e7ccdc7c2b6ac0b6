# ruff: noqa: S608 (names of tables and fields are the schema's)
"""The tables in SQLite, with documents as JSON text, their indexes and their counts.

Counts are maintained by triggers, so that they change in the same transaction as the documents,
whichever process writes those.
"""

import sqlite3

from penstock.storage.state.schema import FieldType, Table, index_name, older_writer


def field(path: str, _: FieldType = "text", document: str = "document") -> str:
    """A declared field, as an expression that can be indexed."""
    return "id" if path == "id" else f"json_extract({document}, '$.{path}')"


def create(database: sqlite3.Connection, table: Table) -> None:
    """Create a table, or add to it what is new."""
    database.execute(
        f"CREATE TABLE IF NOT EXISTS {table.name}"
        " (id TEXT PRIMARY KEY, version INTEGER NOT NULL, document TEXT NOT NULL)"
    )
    for name in table.dropped:
        database.execute(f"DROP INDEX IF EXISTS {name}")
    for fields in table.indexes:
        listed = ", ".join(map(field, fields))
        database.execute(
            f"CREATE INDEX IF NOT EXISTS {index_name(table, fields)} ON {table.name} ({listed})"
        )
    for rule in table.unique:
        # Quoted, because SQL treats NULLs as different.
        listed = ", ".join(f"json_quote({field(path)})" for path in rule.fields)
        only = ""
        if rule.among:
            values = ", ".join(f"'{value}'" for value in rule.among[1])
            only = f" WHERE {field(rule.among[0])} IN ({values})"
        name = index_name(table, rule.fields, unique=True)
        database.execute(
            f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {table.name} ({listed}){only}"
        )
    for path in table.required:
        name = f"{table.name}_needs_{path}"
        database.execute(f"DROP TRIGGER IF EXISTS {name}")
        database.execute(
            f"CREATE TRIGGER {name} BEFORE INSERT ON {table.name}"
            f" WHEN {field(path, 'text', 'new.document')} IS NULL"
            f" BEGIN SELECT RAISE(ABORT, '{older_writer(table, path)}'); END"
        )
    if table.counted:
        _count(database, table)


def _count(database: sqlite3.Connection, table: Table) -> None:
    """Create the triggers that maintain counts, and count the existing documents."""
    name, counts = table.name, f"{table.name}_counts"
    database.execute(
        f"CREATE TABLE IF NOT EXISTS {counts}"
        " (key TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID"
    )
    more = f"INSERT INTO {counts} VALUES ({_key(table, 'new.document')}, 1) {_ADDED}"
    less = f"INSERT INTO {counts} VALUES ({_key(table, 'old.document')}, -1) {_ADDED}"
    other = f"{_key(table, 'new.document')} IS NOT {_key(table, 'old.document')}"
    triggers = {
        "inserted": f"AFTER INSERT ON {name} BEGIN {more}; END",
        "deleted": f"AFTER DELETE ON {name} BEGIN {less}; END",
        "updated": f"AFTER UPDATE OF document ON {name} WHEN {other} BEGIN {less}; {more}; END",
    }
    for what, does in triggers.items():
        database.execute(f"DROP TRIGGER IF EXISTS {name}_{what}")
        database.execute(f"CREATE TRIGGER {name}_{what} {does}")
    database.execute(f"DELETE FROM {counts}")
    key = _key(table, "document")
    database.execute(f"INSERT INTO {counts} SELECT {key}, count(*) FROM {name} GROUP BY 1")


_ADDED = "ON CONFLICT (key) DO UPDATE SET count = count + excluded.count"


def _key(table: Table, document: str) -> str:
    return f"json_array({', '.join(field(path, 'text', document) for path in table.counted)})"
