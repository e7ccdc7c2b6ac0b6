"""Backfills of trades from the simulated Coinbase: what the concurrency of pages and markets gives.

The simulator has the exchange's limits (ten requests a second and fifteen at once) and responses
that take around half a second or three. A configuration is ``WORKERSxCHUNKS``: so many markets at a
time, so many pages of each. Rates are counted in the simulator's own log of admitted requests, in
its steady state: from the moment all jobs have found the ends of their ranges and two latencies
and some seconds have passed, in which the burst is spent. A share is that rate divided by what is
possible, min(limit, concurrency ÷ latency).

Then 3,000 pages with the limits raised, for memory and CPU, and 200 pages next to a plain loop over
ccxt's ``fetch_trades``, at half a second and with the exchange's limits for both. Ours are planned
before; the plan's time is compared with what the pages took from the moment that the ends of the
range were known. Plans and jobs each have to find these first.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench._sides import ROOT, Answer, our_python, running
from bench.sim import Server, listening

RATE = 10
"""Requests a second that the exchange allows."""
LATENCIES_S = (3.0, 0.5)
UPLINK_S = 0.02
CONFIGURATIONS = ("1x1", "1x6", "2x6", "5x9", "auto", "10x20")
AUTO_WORKERS = 3
RAMP_S, SECONDS = 5.0, 18.0
FEWEST = 15
"""Requests that are measured at least: one at a time takes longer for as many."""
FIRST_ID = 1_000_000
MANY_PAGES, MANY_MARKETS = 3000, 3
PEER_PAGES = 200
PLANNED_PAGES, PLANNED_LATENCY_S = 300, 3.0
MARKETS = (
    "btc_usd", "eth_usd", "sol_usd", "xrp_usd", "ltc_usd", "ada_usd", "doge_usd", "btc_usdt",
    "btc_eur", "eth_btc",
)  # fmt: skip


class Result(NamedTuple):
    """One configuration, in its steady state."""

    requests: int
    rate: float
    share: float
    cpu_ms_per_page: float
    peak_mb: float


@contextmanager
def simulating(latency_s: float, **settings: str) -> Iterator[Server]:
    """A simulator with this latency."""
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")
    }
    chosen = {
        "LATENCY_MS": str(round(latency_s * 1000)),
        "UPLINK_MS": str(round(UPLINK_S * 1000)),
        **settings,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "sim", "coinbase", "--port", "0", "--json",
         "--symbols", ",".join(MARKETS)],
        env={**outside, **{f"PENSTOCK_SIMULATOR_{name}": text for name, text in chosen.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with listening(process) as server:
        yield server


def arrivals(server: Server) -> list[dict[str, Any]]:
    """Every request that the simulator has admitted or refused."""
    rows: list[dict[str, Any]] = []
    while page := server.ask(f"requests?after={rows[-1]['seq'] if rows else 0}")["requests"]:
        rows += page
    return rows


def refusals(server: Server) -> int:
    totals: Counter[str] = Counter(server.ask("requests")["totals"])
    return totals["429"] + totals["418"]


def ask_ours(server: Server, folder: Path, **asked: object) -> Answer:
    """Run our side in a new process."""
    usual = {"ramp_s": 0, "seconds": 0, "per_s": None, "first_id": FIRST_ID, "chunks": "auto"}
    usual["plan"] = False
    question = {
        "address": f"http://127.0.0.1:{server.port}", "folder": str(folder), **usual, **asked
    }  # fmt: skip
    with running("ours", our_python(), "bench.ours.ingest") as side:
        return side.ask(json.dumps(question))


def measure(server: Server, latency_s: float, name: str, folder: Path) -> Result:
    """The steady state of one configuration."""
    workers, chunks, possible = AUTO_WORKERS, None, float(RATE)
    if name != "auto":
        workers, chunks = (int(part) for part in name.split("x"))
        possible = min(RATE, workers * chunks / (latency_s + UPLINK_S / 2))
    answer = ask_ours(
        server, folder, symbols=MARKETS[:workers], pages=10_000, chunks=chunks or "auto",
        ramp_s=2 * latency_s + RAMP_S, seconds=max(SECONDS, FEWEST / possible),
    )  # fmt: skip
    times_ms = [
        row["at_ms"]
        for row in arrivals(server)
        if answer["since_ms"] <= row["at_ms"] <= answer["until_ms"] and row["status"] == 200
    ]
    rate = (len(times_ms) - 1) / (times_ms[-1] - times_ms[0]) * 1000
    cpu_ms = 1000 * answer["cpu_s"] / len(times_ms)
    return Result(len(times_ms), rate, rate / possible, cpu_ms, answer["peak_mb"])


def show(latency_s: float, results: Mapping[str, Result]) -> None:
    """A table like the specification's."""
    print(f"\n   latency around {latency_s} s, limit {RATE} req/s")
    head = ("Configuration", "In flight", "Requests", "Throughput", "Speedup", "Share", "CPU/page")
    print("   | " + " | ".join(f"{each:>13}" for each in (*head, "Peak memory")) + " |")
    for name, found in results.items():
        workers, _, chunks = name.partition("x")
        cells = (
            name,
            "auto" if name == "auto" else int(workers) * int(chunks),
            found.requests,
            f"{found.rate:.2f} req/s",
            f"{found.rate / results['1x1'].rate:.1f}x",
            f"{found.share:.3f}",
            f"{found.cpu_ms_per_page:.1f} ms",
            f"{found.peak_mb:.0f} MB",
        )
        print("   | " + " | ".join(f"{each:>13}" for each in cells) + " |", flush=True)


def compare_configurations(folder: Path) -> dict[str, object]:
    """All configurations at both latencies, one after the other."""
    figures: dict[str, object] = {}
    refused, peaks, ratios = 0, [], []
    for latency_s in LATENCIES_S:
        with simulating(latency_s) as server:
            results = {
                name: measure(server, latency_s, name, folder / f"{latency_s}-{name}")
                for name in CONFIGURATIONS
            }
            refused += refusals(server)
        show(latency_s, results)
        figures[f"latency_{latency_s:g}s"] = {
            name: {
                "per_s": round(found.rate, 2),
                "speedup": round(found.rate / results["1x1"].rate, 1),
                "share": round(found.share, 3),
            }
            for name, found in results.items()
        }
        peaks.append(results["10x20"].peak_mb)
        ratios.append(results["10x20"].cpu_ms_per_page / results["auto"].cpu_ms_per_page)
    return {
        **figures,
        "http_429": refused,
        "rss_mb_10x20": max(peaks),
        "cpu_10x20_vs_auto": round(max(ratios), 2),
    }


def fetch_many(folder: Path) -> dict[str, object]:
    """Memory and CPU of many pages, as fast as they come."""
    with simulating(0.01, LIMITS="public=100000/1") as server:
        pages = MANY_PAGES // MANY_MARKETS
        symbols = MARKETS[:MANY_MARKETS]
        answer = ask_ours(server, folder, symbols=symbols, pages=pages, chunks=6, per_s=2000)
    rows = MANY_PAGES * 1000
    return {
        "pages": MANY_PAGES,
        "rows_per_cpu_s": round(rows / answer["cpu_s"]),
        "rows_per_s": round(rows / answer["wall_s"]),
        "rss_mb": answer["peak_mb"],
        "rss_mb_idle": answer["idle_mb"],
    }


def ccxt_python() -> Path:
    """The Python of the environment that the conformance tests use too."""
    subprocess.run(["make", "-s", ".venvs/ccxt/.ready"], cwd=ROOT, stdout=sys.stderr, check=True)
    return ROOT / ".venvs" / "ccxt" / "bin" / "python"


def compare_with_ccxt(folder: Path) -> dict[str, object]:
    """The same pages of one market, by ours and by a plain loop, on the same simulator."""
    with simulating(0.5) as server:
        ours = ask_ours(server, folder, symbols=MARKETS[:1], pages=PEER_PAGES, plan=True)
        with running("ccxt", ccxt_python(), "bench.peers.ccxt_ingest") as side:
            question = {
                "address": f"http://127.0.0.1:{server.port}", "symbol": "BTC/USD",
                "last_id": FIRST_ID + PEER_PAGES * 1000 - 1, "pages": PEER_PAGES,
            }  # fmt: skip
            theirs = side.ask(json.dumps(question))
        refused = refusals(server)
    if not theirs["complete"]:
        raise SystemExit("ccxt's loop did not get every trade")
    return {
        "pages": PEER_PAGES,
        "ours_s": round(ours["wall_s"], 1),
        "ccxt_s": round(theirs["wall_s"], 1),
        "faster": round(theirs["wall_s"] / ours["wall_s"], 2),
        "http_429": refused,
        "version": theirs["version"],
        "eta": compare_with_plan(ours),
    }


def compare_with_plan(answer: Answer) -> dict[str, float]:
    """How long the pages took, and should have taken."""
    error = abs(answer["eta_s"] / answer["fetch_s"] - 1)
    rounded = {name: round(answer[name], 1) for name in ("eta_s", "fetch_s", "wall_s")}
    return {**rounded, "error": round(error, 3)}


def plan_slow(folder: Path) -> dict[str, float]:
    """The same comparison, at another latency."""
    with simulating(PLANNED_LATENCY_S) as server:
        answer = ask_ours(server, folder, symbols=MARKETS[:1], pages=PLANNED_PAGES, plan=True)
    return compare_with_plan(answer)


def main() -> Mapping[str, object]:
    """Measure everything, one after the other."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        many = fetch_many(folder / "many")
        print(f"   {json.dumps(many)}", flush=True)
        beside = compare_with_ccxt(folder / "beside")
        eta = {"latency_0.5s": beside.pop("eta"), "latency_3s": plan_slow(folder / "planned")}
        print(f"   {json.dumps(beside)}\n   {json.dumps(eta)}", flush=True)
        figures = compare_configurations(folder)
    return {**figures, "many_pages": many, "vs_ccxt": beside, "eta": eta}
