"""``penstock verify``: checks collected data against itself."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.app.dataset import configured_dataset
from penstock.cli.context import read_settings
from penstock.cli.options import (
    DataOption,
    JsonOption,
    OnlyExchangeOption,
    OnlyMarketsArgument,
    note,
    say,
    split,
)
from penstock.clock import SystemClock
from penstock.errors import BadQuery, near_matches
from penstock.telemetry.printable import printable

if TYPE_CHECKING:
    from penstock.dataset.verify.findings import Report

_SHOWN = 50


def verify(
    context: typer.Context,
    symbols: OnlyMarketsArgument = None,
    exchange: OnlyExchangeOption = None,
    checks: Annotated[
        str | None,
        typer.Option(help="Only these, separated by commas: records, ids, candles, books."),
    ] = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check collected data: that nothing is damaged, missing without a gap, or contradictory.

    Every record of the log and the lake is read. All ids that the ledger calls complete must be
    there, candles must equal the trades they were made of, and books rebuilt from their changes
    must equal the recorded snapshots. Known gaps are no defects: see penstock coverage.

    Exits 0 if nothing is wrong, 1 if something is. Nothing is changed.

    Example: penstock verify BTC/USDT --data-dir ~/market-data
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    data = configured_dataset(settings, SystemClock())
    report = data.verify(symbols or None, exchange=exchange, **_chosen(split(checks)))
    if as_json:
        say(report)
    else:
        _print(report)
    raise typer.Exit(0 if report.clean else 1)


def _chosen(names: list[str] | None) -> dict[str, Any]:
    if names is None:
        return {}
    from penstock.dataset.verify.findings import CHECKS  # noqa: PLC0415 (needs the extra)

    for name in names:
        if name not in CHECKS:
            near = near_matches(name, CHECKS)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise BadQuery(
                f"--checks: there is no check {name!r}.{meant} All: {', '.join(CHECKS)}."
            )
    return {"checks": names}


def _print(report: "Report") -> None:
    for each in report.findings[:_SHOWN]:
        typer.echo(printable(str(each)))
    unlisted = len(report.findings) - _SHOWN + report.more
    if unlisted > 0:
        note(f"penstock: {unlisted:,} more findings; see --json.")
    for reason in report.not_checked:
        note(f"penstock: not checked: {printable(reason)}.")
    compared = ", ".join(f"{count:,} {what}" for what, count in report.compared.items())
    found = len(report.findings) + report.more
    result = "nothing is wrong" if report.clean else f"{found:,} finding{'s' * (found > 1)}"
    typer.echo(f"Compared {compared or 'nothing'}: {result}.")
