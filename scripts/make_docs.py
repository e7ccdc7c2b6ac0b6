"""Write the pages in docs that are made from the code: commands, data, logs, settings, tables."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import polars as pl
import typer
from msgspec import Struct
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

import penstock
from penstock.cli import app
from penstock.config import (
    RENAMED,
    Secret,
    Settings,
    describe,
    environment_name,
    field_notes,
    is_section,
    short_names,
    table_of,
)
from penstock.dataset.meanings import MEANINGS, frame_schemas
from penstock.market.channels import BY_EVENT
from penstock.market.events import Event
from penstock.storage.lake.columns import SHARED, key_columns, schema_of, time_column
from penstock.storage.lake.coverage import COVERAGE_COLUMNS
from penstock.telemetry import CountedFact, Fact

DOCS = Path(__file__).parent.parent / "docs"


_OF_EXCHANGE = ", for the exchange that `collect` or `fetch` serves"


def cli_page() -> str:
    """Every command, with its help and options."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    lines = ["# Commands", "", "Made from the code by `make docs`. Every command has `--help`.", ""]
    for path, command in _commands(root, "penstock"):
        lines += [f"## `{path}`", "", inspect.cleandoc(command.help or ""), ""]
        options = [_option_row(parameter) for parameter in command.params]
        rows = [row for row in options if row]
        if rows:
            lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def settings_page() -> str:
    """Every setting, with its default and what is allowed."""
    lines = [
        "# Settings", "",
        "Made from the code by `make docs`. Precedence, highest first: the command line, the",
        "environment, `penstock.toml`, the default. `penstock config` shows each value's source,",
        "`penstock init` writes a file with all of them. Secrets, lists and tables:",
        "[configuration](configuration.md).",
        "",
    ]  # fmt: skip
    for section, hint in get_type_hints(Settings).items():
        if table := table_of(hint):
            lines += _table_of_tables(section, table)
            continue
        lines += _section(section, hint)
    return "\n".join(lines + _short_names() + _renamed())


_TABLES = """\
# The lake's tables

Made from the code by `make docs`. The tables of the [lake](lake.md), one for each channel, and
their columns. A column is null where the exchange sends nothing.

- A number is exact: `price` is a decimal, and `price_digits` says how many digits the exchange sent
  after the point. Where its text cannot be rebuilt from both, such as `007.5`, it is in
  `price_text`, which is null otherwise. So it is for every number.
- A time by the exchange's clock is `at`, a timestamp in microseconds (UTC); `at_ns` has all its
  digits, in nanoseconds since 1970.
- An id beyond 64 bits is in `id_text`, and `id` is null.
- Levels of books are JSON, as text: `[["60000.01","0.5"],…]`, price and quantity.

## Columns of every table

| column | type | |
|---|---|---|
"""


def tables_page() -> str:
    """Every table of the lake, with its columns."""
    lines = [f"| `{name}` | {held} | {said} |" for name, held, said in SHARED]
    for row in BY_EVENT.values():
        said = inspect.cleandoc(row.event.__doc__ or "").partition("\n")[0]
        keys = ", ".join(f"`{name}`" for name in key_columns(row))
        lines += ["", f"## `{row.name}`", "", said, ""]
        lines += [f"A record is identified by {keys}; rows are sorted by `symbol`,"]
        lines += [f"`{time_column(row)}`; partitions are {row.partition}s.", ""]
        lines += ["| column | type | |", "|---|---|---|"]
        schema = schema_of(row)
        notes = {k: v for kind in row.event.__mro__ for k, v in _notes_of(kind).items()}
        for column in row.columns:
            for name in column.names:
                said = notes.get(column.field, "") if name == column.name else ""
                lines.append(f"| `{name}` | {schema.field(name).type} | {said} |")
    lines += ["", "## `coverage`", "", "What is complete and what is missing.", ""]
    lines += ["| column | type | |", "|---|---|---|"]
    lines += [f"| `{name}` | {held} | {said} |" for name, held, said in COVERAGE_COLUMNS]
    return _TABLES + "\n".join(lines) + "\n"


def _notes_of(kind: type) -> dict[str, str]:
    return field_notes(kind) if issubclass(kind, Event) and kind is not Event else {}


def pages() -> dict[Path, str]:
    """Every made page and its text."""
    made = {
        "cli.md": cli_page(),
        "data.md": data_page(),
        "logs.md": logs_page(),
        "settings.md": settings_page(),
        "tables.md": tables_page(),
    }
    return {DOCS / name: text for name, text in made.items()}


_DATA = """\
# Data as frames

Made from the code by `make docs`: names and types are those that `penstock.open` returns.

```python
import penstock

data = penstock.open("penstock-data")  # a data folder, or a lake: s3://bucket/lake
data.trades("BTC/USDT", since="-1h").polars()  # or .lazy() .pandas() .arrow() .duckdb()
data.candles("7m", "BTC/USDT", from_trades=True).polars()
data.book("BTC/USDT").at("2026-11-01T12:00").best_bid
data.sql("SELECT symbol, count(*) FROM trades GROUP BY symbol").polars()
```

The libraries come with `pip install 'penstock[lake]'`; pandas with `penstock[pandas]`. A page that
leads from the demo to a plot is [notebook](notebook.md); commands are `penstock export` and
`penstock query` ([commands](cli.md)).

- **Rows.** The log and the lake are read as one, while collectors write: each record once, sorted
  by time, then by id. Of several copies the one received first counts; of a candle that the
  exchange corrected, its last correction.
- **Times.** Arguments are a `datetime`, ISO text (in UTC unless it has an offset), `"-1h"`,
  `"now"`, or milliseconds or nanoseconds since 1970. `since` is included, `until` is not. Both
  are compared with `time`, the exchange's clock.
- **Names.** Markets are `BTC/USDT`, `btc_usdt` or named as their exchange does; frames have
  `BTC/USDT`. Without a market, or an exchange, all are read.
- **Numbers.** Prices and quantities are 64-bit floats; `numbers="decimal"` gives exact decimals
  with 18 digits after the point, `numbers="text"` the digits that the exchange sent.
- **Columns.** `columns="tardis"` gives the columns of Tardis' files `trades`, `quotes` and
  `incremental_book_L2`; `columns="stored"` those of the [lake's tables](tables.md).
- **Gaps.** Before anything is read, the range is compared with the ledger of coverage. If data is
  missing, `on_gap="warn"` (the default) gives a `penstock.GapWarning` that names it, `"raise"` a
  `GapError`, `"ignore"` nothing. `data.coverage()` and `data.gaps()` list all of it. Where several
  machines share a state store and a lake, what a log of another machine holds and the lake does
  not have yet counts as missing too, also a market that only that machine collects.
- **Events.** Iterating over a query gives events with exact decimals: `for trade in
  data.trades("BTC/USDT"): trade.price`.
- **Memory.** `.lazy()`, `.arrow_batches()`, iteration and `penstock export` hold a window of rows
  in memory at a time, about 64 MB. SQL has 1 GB; what exceeds it goes to a temporary folder.
  Filters of a lazy frame or of SQL by `time`, `exchange` and `symbol` avoid reading the rest; if
  a query of several tables needs more than 256 MB of their rows, all of these are read.
- **Computed candles.** With `from_trades=True` candles of any interval are computed exactly,
  those only that have ended. `empty` says what is done with intervals without trades: `"skip"`
  them, `"fill"` in the last price with a volume of zero, or `"null"`. The first candle of a
  collection has only the trades since it began. `data.fetch_ohlcv(symbol, timeframe, since,
  limit)` returns what ccxt's method of that name does.
- **Order books.** `data.book(symbol).at(time)` rebuilds a book from the snapshot before and the
  changes since. Its `state` is `synced`, `stale` (with a `reason`) or `syncing`; levels beyond
  the end of that snapshot are not shown, since they are not known.
- **SQL.** `data.sql` accepts one SELECT in DuckDB's dialect over the tables below. Files,
  networks, extensions and settings are out of reach, and nothing can be changed.
"""


def data_page() -> str:
    """Every frame, with its columns, types and their meanings."""
    lines = [_DATA]
    for name, schema in frame_schemas().items():
        lines += [f"## `{name}`", "", "| column | polars | Arrow | |", "|---|---|---|---|"]
        arrow = pl.DataFrame(schema=schema).to_arrow().schema
        for column, kind in schema.items():
            means = MEANINGS[column]
            lines.append(
                f"| `{column}` | `{_kind(kind)}` | `{arrow.field(column).type}` | {means} |"
            )
        lines.append("")
    return "\n".join(lines)


def _kind(kind: pl.DataType) -> str:
    return "Datetime(us, UTC)" if isinstance(kind, pl.Datetime) else str(kind)


_LOGS = """\
# Logs

Made from the code by `make docs`. All logs go to stderr in one format, including logs of libraries,
warnings and tracebacks: readable lines on a terminal, one JSON object per line elsewhere
(`PENSTOCK_LOGGING_FORMAT` is `auto`, `human` or `json`). Each line has a `level`, an `event` and a
`ts`; lines of libraries also have a `logger`. Nothing below `PENSTOCK_LOGGING_LEVEL` (`info`) is
written; of libraries, nothing below a warning. The output of a command goes to stdout.

Every process that runs for long also keeps its latest lines in its data folder, in
`logs/NAME.jsonl` and, before those, `logs/NAME.jsonl.1`: JSON lines of the same form, with `ts`,
`level` and `event` first, and with secrets masked as everywhere. Both files together take
`logs.keep_mb` (10 MB; 0 keeps none), and have lines from `logs.level` on (`info`), also while a
view is drawn on the terminal. A thread writes them, without syncing: a crash of the machine may
cost the last lines, and the last line may be incomplete. If they cannot be written, since the disk
is full or slow, they are dropped: `LogsNotKept` is logged once, and `LinesLost` says how many.
A line that is too long is replaced by `LineTooLong`, with its start.

`penstock logs [--follow] [--level] [--process] [--text] [--json]` and `GET /api/v1/logs` show them
for all processes of a data folder together. `penstock gc` removes the files of processes that have
written nothing for `logs.keep_days`; backups do not contain them.

| event | level | |
|---|---|---|
"""
_LOGS_END = """
Some events have a higher level than in the table: `JobFailed` of a job that is given up and
`SymbolsReread` that was refused are errors; `RequestSent` with a status of 400 or more is a
warning; `RequestServed` with a status of 500 or more is an error. Three events have no row:
`running` reports progress every ten seconds, `stopped` marks the end of a process (as an error,
with the reason), and `crashed` marks an unexpected error, with the traceback.
"""


def logs_page() -> str:
    """Every fact that is logged, with its level."""
    # A fact is known once the module that defines it was imported.
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if module.name.endswith((".facts", ".recorder")):
            import_module(module.name)
    rank = ("error", "warning", "info", "debug").index
    kinds = sorted(_kinds(Fact), key=lambda k: (rank(k.level), k.__name__))
    rows = ""
    for kind in kinds:
        said = " ".join(inspect.cleandoc(kind.__doc__ or "").split())
        rows += f"| `{kind.__name__}` | {kind.level} | {said} |\n"
    return _LOGS + rows + _LOGS_END


def _kinds(fact: type[Fact]) -> Iterator[type[Fact]]:
    for kind in fact.__subclasses__():
        yield from _kinds(kind)
        if kind is not CountedFact:
            yield kind


def _commands(group: TyperGroup, path: str) -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            if command.invoke_without_command:
                yield f"{path} {name}", command
            yield from _commands(command, f"{path} {name}")
        elif isinstance(command, TyperCommand):
            yield f"{path} {name}", command


def _option_row(parameter: object) -> str | None:
    if isinstance(parameter, TyperArgument):
        return f"| `{(parameter.name or '').upper()}` | {parameter.help or ''} |"
    if not isinstance(parameter, TyperOption) or "--help" in parameter.opts:
        return None
    spelled = ", ".join(f"`{option}`" for option in parameter.opts)
    shown = parameter.show_default if isinstance(parameter.show_default, str) else None
    if shown is None and type(parameter.default) in (int, float, str):
        shown = str(parameter.default)
    default = f" Default: {shown}." if shown else ""
    return f"| {spelled} | {parameter.help or ''}{default} |"


def _section(section: str, struct: type[Struct]) -> Iterator[str]:
    yield from (f"## `[{section}]`", "", inspect.cleandoc(struct.__doc__ or ""), "")
    yield from ("| setting | variable | default | allowed | |", "|---|---|---|---|---|")
    yield from (*_setting_rows(section, struct), "")
    for field, hint in get_type_hints(struct).items():
        if is_section(hint):
            yield from _section(f"{section}.{field}", hint)
        elif table := table_of(hint):
            yield from _table_of_tables(f"{section}.{field}", table)


def _setting_rows(section: str, struct: type[Struct]) -> Iterator[str]:
    defaults, notes = struct(), field_notes(struct)
    for field, hint in get_type_hints(struct, include_extras=True).items():
        if is_section(hint) or table_of(hint):
            continue
        default: Any = getattr(defaults, field)
        shown = ",".join(default) if isinstance(default, tuple) else default
        shown = shown.reveal() if isinstance(shown, Secret) else shown
        variable = environment_name(f"{section}.{field}")
        yield f"| `{field}` | `{variable}` | `{shown}` | {describe(hint)} | {notes[field]} |"


def _short_names() -> list[str]:
    lines = [
        "## Short names", "",
        "Variables without a prefix, for containers that run one process for one exchange. They",
        "override the settings file; the full variable of the same setting overrides them.", "",
        "| variable | what it sets |", "|---|---|",
        "| `SYMBOLS` | markets of `collect` and `fetch`, where the command line names none |",
    ]  # fmt: skip
    exchange, everywhere = short_names("EXCHANGE", signs=True), short_names()
    for alias in exchange:
        alone = "" if alias.variable in {each.variable for each in everywhere} else _OF_EXCHANGE
        lines.append(f"| `{alias.variable}` | `{alias.setting}`{alone} |")
    ignored = "`API_KEY` and so on are ignored, with a warning, where requests are not signed."
    return [*lines, "", ignored, ""]


def _renamed() -> list[str]:
    lines = [
        "## Renamed settings", "",
        "The old names still work in this version, in the file and in the environment. A process",
        "that finds one logs a warning, once. Where both names are set, the new one wins.", "",
        "| old name | old variable | new name |", "|---|---|---|",
    ]  # fmt: skip
    rows = [f"| `{old}` | `{environment_name(old)}` | `{new}` |" for old, new in RENAMED.items()]
    return [*lines, *rows, ""]


def _table_of_tables(section: str, struct: type[Struct]) -> Iterator[str]:
    yield from (f"## `[{section}.NAME]`", "", inspect.cleandoc(struct.__doc__ or ""), "")
    yield f"`{environment_name(section)}` may have all tables of `{section}`, as JSON."
    yield from ("", "| setting | default | allowed | |", "|---|---|---|---|")
    defaults, notes = struct(), field_notes(struct)
    for field, hint in get_type_hints(struct, include_extras=True).items():
        shown = msgspec.json.encode(getattr(defaults, field)).decode()
        yield f"| `{field}` | `{shown}` | {describe(hint)} | {notes[field]} |"
    yield ""


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
