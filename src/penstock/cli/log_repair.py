"""``penstock log repair``: finds damage in the log and replaces damaged slots with copies."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from penstock.cli.context import read_settings
from penstock.cli.ledger import consecutive
from penstock.cli.options import DataOption, JsonOption, note, say
from penstock.clock import SystemClock
from penstock.collect.log_repair import finish, where
from penstock.collect.repaired_ledger import LostRange, by_stream, correct_ledger
from penstock.config import Settings
from penstock.coverage.id_scan import ScannedStores
from penstock.errors import MissingExtra, SlotInUse, StorageError, UnknownSlot
from penstock.market.channels import TRADES
from penstock.publish.endpoints import find_log_id
from penstock.runtime.stores import configured_log, lake_to_read, open_state
from penstock.storage.log import EventLog
from penstock.storage.log.damage import slots_in
from penstock.storage.log.keys import key_text
from penstock.storage.log.repair import DamageReport, Lost, repairing


def repair(
    context: typer.Context,
    slot: Annotated[
        str | None, typer.Argument(help="Only this slot of the log.", show_default="all of them")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report what is damaged and what would be lost.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check every record of the log, and replace damaged slots with copies of the intact records.

    If files are damaged, the command lists them and what is lost of each stream, then asks for
    confirmation. The damaged slot is kept beside the log as SLOT.damaged-TIME. penstock gaps lists
    the lost records from then on, penstock coverage counts them as missing, and workers fetch lost
    trades and candles again. Record numbers continue above all that were used. Stop the process
    that writes the slot first.

    The exit code is 1 if a slot is damaged and was not repaired.

    Example: penstock log repair collect-binance --dry-run
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    log = configured_log(settings)
    there = sorted(slots_in(log.folder / "log")) if log.folder is not None else []
    if slot is not None and slot not in there:
        raise UnknownSlot(slot, there)
    # JSON output is for programs, which cannot confirm.
    ask = not yes and not as_json and sys.stdin.isatty()
    failed = False
    for name in [slot] if slot else there:
        try:
            ended_well = _repair_one(settings, name, ask, yes and not dry_run, dry_run, as_json)
            failed = failed or not ended_well
        except SlotInUse as error:
            if slot is not None:
                raise
            note(f"penstock: {error}")
            failed = True
    if failed:
        raise typer.Exit(1)


def _repair_one(
    settings: Settings, slot: str, ask: bool, agreed: bool, dry_run: bool, as_json: bool
) -> bool:
    """Check and repair one slot; return whether it is intact or was repaired."""
    folder, log = Path(settings.collect.data_dir), configured_log(settings)
    assert log.folder is not None
    ledger: dict[str, object] | None = None
    with repairing(log.folder / "log", slot) as under_way:
        findings = under_way.examine()
        aside: Path | None = None
        if not as_json:
            _draw(findings)
        if not findings.sound and not dry_run:
            if ask:
                agreed = typer.confirm(
                    "Replace the slot with the copy? The damaged files are kept."
                )
            if agreed:
                aside = finish(under_way, folder, log, SystemClock().now_ns())
                ledger = _correct_ledger(settings, log, findings)
    if as_json:
        say({**_facts(findings, aside), "ledger": ledger})
    elif aside is not None:
        note(f"penstock: {slot} is repaired. The damaged files are kept in {aside}.")
    elif not findings.sound:
        again = "" if dry_run else " Repair it with --yes."
        note(f"penstock: {slot} is damaged. Nothing was changed.{again}")
    return findings.sound or aside is not None


def _correct_ledger(
    settings: Settings, log: EventLog, findings: DamageReport
) -> dict[str, object] | None:
    """Report what is lost as gaps; return what was done, None if there was nothing to do."""
    log_id = None if log.folder is None else find_log_id(log.folder)
    kept_here = Path(settings.collect.data_dir) / "state.db"
    affected = list(by_stream(findings.lost, consecutive))
    if not affected or log_id is None or not (settings.state.url or kept_here.exists()):
        return None  # no ledger lists them
    try:
        found = asyncio.run(_report_lost(settings, log, log_id, findings))
    except (StorageError, MissingExtra) as error:
        note(f"penstock: lost records are still listed as complete: {error}")
        note("penstock: for trades, correct it later with:")
        for stream, by, _ in affected:
            if by == "id":
                said = "" if stream.channel == TRADES.name else _channel_words(stream.channel)
                note(f"  penstock jobs add {stream.exchange} trade_scan {stream.symbol}{said}")
        return {"corrected": False, "problem": str(error), "gaps": []}
    if found:
        note(
            f"penstock: {len(found):,} ranges of lost trades or candles are gaps now: penstock gaps"
            " lists them. Workers fetch them: penstock work"
        )
    gaps = [{**each._asdict(), "stream": str(each.stream)} for each in found]
    return {"corrected": True, "problem": None, "gaps": gaps}


def _channel_words(channel: str) -> str:
    return f""" --cursor '{{"channel": "{channel}"}}'"""


async def _report_lost(
    settings: Settings, log: EventLog, log_id: int, findings: DamageReport
) -> list[LostRange]:
    clock = SystemClock()
    async with open_state(settings, clock) as store:
        with closing(log.reader()) as reader:
            lake = partial(lake_to_read, settings)
            stores = ScannedStores(store, reader, log_id, clock, lake)
            return await correct_ledger(findings.lost, stores, consecutive)


def _facts(findings: DamageReport, aside: Path | None) -> dict[str, object]:
    return {
        "slot": findings.slot,
        "sound": findings.sound,
        "repaired": aside is not None,
        "kept_aside": None if aside is None else str(aside),
        "records": findings.records,
        "damaged_files": [{"file": each.name, "problem": each.problem} for each in findings.files],
        "lost": [
            {
                "stream": str(each.stream),
                "after": None if each.after is None else key_text(each.after),
                "before": None if each.before is None else key_text(each.before),
                "since_ns": each.since_ns,
                "until_ns": each.until_ns,
                "records": each.records,
            }
            for each in findings.lost
        ],
    }


def _draw(findings: DamageReport) -> None:
    console = Console()
    if findings.sound:
        console.print(f"{findings.slot}: intact, {findings.records:,} records")
        return
    files = Table(box=None, header_style="dim", title_justify="left")
    files.title = f"[bold]{findings.slot}[/] is damaged"
    files.add_column("file", no_wrap=True)
    files.add_column("problem", overflow="fold")
    for file in findings.files:
        files.add_row(file.name, file.problem)
    console.print(files)
    if findings.lost:
        console.print(_table(findings.lost))
    else:
        console.print("No records are lost.")
    console.print(f"{findings.records:,} records can be kept.")


def _table(lost: Sequence[Lost]) -> Table:
    table = Table(box=None, header_style="dim")
    for name in ("stream", "lost", "records", "received between, UTC", "and"):
        right = name == "records"
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for each in lost:
        count = "unknown" if each.records is None else f"{each.records:,}"
        times = (_when(each.since_ns), _when(each.until_ns))
        table.add_row(str(each.stream), where(each), count, *times)
    return table


def _when(at_ns: int | None) -> str:
    if at_ns is None:
        return ""
    return f"{datetime.fromtimestamp(at_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}"
