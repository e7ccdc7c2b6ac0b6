"""The lake next to nautilus_trader's Parquet catalog, and what 100 million rows cost.

Both sides write the same generated trades and book changes of one market and read them back, in
processes of their own, in turn. A ratio is the peer's CPU time divided by ours, trades and changes
together; the median of the rounds. What is compared, and what is not equal:

- Write. Ours begins with the bytes of the log, which must be decoded, and ends with committed Delta
  tables from which each record can be rebuilt byte for byte. The peer's begins with its own objects
  in memory, and ends with Parquet files. Ours in batches as a keeper seals them, the peer's in one
  call. A keeper also reads back what it has sealed: the peer has no such step, so it is not in the
  ratio but told as ``read_back_us``.
- A book change has eight levels. The peer has a row for each, so it writes and reads eight times
  as many rows; ours has one row with the levels as the exchange's JSON.
- Query. Ours is read as a polars frame with numbers as floats and, for books, lists of levels:
  what ``penstock.open(…).trades(…).polars()`` gives. The peer has no frames: its query gives its
  own objects, each with exact numbers. Ours as event objects, also exact, is told as
  ``events_vs_nautilus``, and is slower.
- A part is a hundredth of a day. The peer selects by the time of receipt, ours by the exchange's.

Sizes are those of all files. The query over many rows counts, sums and groups by hour, in a process
whose greatest resident memory is told. ``BENCH_LAKE_ROWS`` sets the number of its rows, and
``BENCH_LAKE_TRADES`` the number of trades and, divided by eight, of changes, for a quick try.
"""

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping

from bench._sides import Answer, Side, in_turn, our_python, peer_python, pinned_versions, running

ROUNDS = 3
TRADES = int(os.environ.get("BENCH_LAKE_TRADES", "1_000_000"))
CHANGES = TRADES // 8
ROWS = int(os.environ.get("BENCH_LAKE_ROWS", "100_000_000"))
WARM = 8_000
"""Written and read once before, not counted: libraries are loaded."""
KINDS = ("trades", "changes")


def cpu_s(answer: Answer, step: str) -> float:
    return sum(float(answer[kind][step]["cpu_s"]) for kind in KINDS)


def compare(ours: Side, peer: Side) -> list[tuple[Answer, Answer]]:
    """The answers of both sides to the same question, round by round."""
    question, found = json.dumps({"trades": TRADES, "changes": CHANGES}), []
    for side in (ours, peer):
        side.ask(json.dumps({"trades": WARM, "changes": WARM // 8}))
    for turn in range(ROUNDS):
        answers = {side.name: side.ask(question) for side in in_turn([ours, peer], turn)}
        a, b = answers[ours.name], answers[peer.name]
        told = ", ".join(
            f"{step} {cpu_s(a, step):.2f} s to {cpu_s(b, step):.2f} s"
            for step in ("write", "query")
        )
        load = os.getloadavg()[0]
        print(f"   round {turn + 1} of {ROUNDS}: {told} of CPU, load {load:.1f}", flush=True)
        found.append((a, b))
    return found


def ratio(rounds: list[tuple[Answer, Answer]], step: str, peers: str | None = None) -> float:
    return round(statistics.median(cpu_s(b, peers or step) / cpu_s(a, step) for a, b in rounds), 2)


def median(rounds: list[tuple[Answer, Answer]], value: Callable[[Answer, Answer], float]) -> float:
    return round(statistics.median(value(a, b) for a, b in rounds), 3)


def per_row(rounds: list[tuple[Answer, Answer]]) -> dict[str, object]:
    """Microseconds of CPU a row for each side, kind and step."""
    return {
        f"{name}_{kind}": {
            f"{step}_us": median(
                rounds,
                lambda *sides, i=index, k=kind, s=step: (
                    1e6 * sides[i][k][s]["cpu_s"] / sides[i][k]["rows"]
                ),
            )
            for step in steps
        }
        for index, (name, steps) in enumerate(
            (("ours", ("write", "read_back", "query", "events")), ("nautilus", ("write", "query")))
        )
        for kind in KINDS
    }


def scan_many(ours: Side) -> Answer:
    """The query over a large lake, in a fresh process."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-many-") as folder:
        print(f"   generating {ROWS:,} rows", flush=True)
        made = ours.ask(json.dumps({"generate": ROWS, "folder": folder}))
        with running("reader", our_python(), "bench.ours.lake") as reader:
            found = reader.ask(json.dumps({"scan": folder}))
    if found["rows"] != ROWS:
        raise SystemExit(f"the query saw {found['rows']} of {ROWS} rows")
    return {**found, "seal_rows_per_cpu_s": round(ROWS / made["cpu_s"])}


def main() -> Mapping[str, object]:
    """Start both sides, compare them, and measure what only ours does."""
    with (
        running("ours", our_python(), "bench.ours.lake") as ours,
        running("nautilus", peer_python("nautilus"), "bench.peers.nautilus_lake") as peer,
    ):
        rounds = compare(ours, peer)
        sizes = ours.ask(json.dumps({"sizes": TRADES, "changes": CHANGES}))
        replayed = ours.ask(json.dumps({"replay": TRADES}))
        many = scan_many(ours)
    mine, theirs = rounds[-1]
    return {
        "ratios": {
            "write_vs_nautilus": ratio(rounds, "write"),
            "query_vs_nautilus": ratio(rounds, "query"),
            "events_vs_nautilus": ratio(rounds, "events", "query"),
            "part_vs_nautilus": ratio(rounds, "part"),
        },
        "bytes_per_trade": round(mine["trades"]["bytes"] / TRADES, 2),
        "replay_events_per_s": round(TRADES / replayed["cpu_s"]),
        "rss_mb_100m" if ROWS == 100_000_000 else "rss_mb": many["rss_mb"],
        "seal_rows_per_s": round(
            1 / statistics.median(a["trades"]["write"]["cpu_s"] / TRADES for a, _ in rounds)
        ),
        "cpu_per_row": per_row(rounds),
        "bytes_per_row": {
            kind: {
                "ours": round(mine[kind]["bytes"] / count, 2),
                "nautilus": round(theirs[kind]["bytes"] / count, 2),
                "json": round(sizes[kind]["json"] / count, 2),
                "csv_gz": round(sizes[kind]["csv_gz"] / count, 2),
            }
            for kind, count in (("trades", TRADES), ("changes", CHANGES))
        },
        "many": many,
        "peers": pinned_versions("nautilus", ("nautilus_trader",)),
    }
