"""Frames in, events and books out: how much CPU a message costs, next to cryptofeed.

All sides get the same messages in processes of their own and are asked alternately, case by case:
the same bytes where they speak one format, and otherwise the same events, each in its own format.
A ratio is the peer's CPU time per message over ours, the median over the rounds.

The peer reads one frame at a time, makes a decimal of every number, and keeps the books. Ours is
measured doing just that, which is equal work (``one_decimals``), and doing less where its users
need less: with numbers left as text (``one_text``), with as many frames at once as a busy session
finds on its socket (``batch_decimals``), and both (``batch_text``). Ratios are given for the
newest cryptofeed and for 2.4.1, the last one for our Python.

Before anything is timed all must tell the truth: every trade, every best price, the touch after
every delta and every level in the end, as exact decimals; after every timed run, the counts and the
books once more. The physical limit is what a plain loop in C takes to find every token of the same
frames (``bench/inputs/split.c``), without making anything of them.
"""

import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from bench._c_loop import measure_loop
from bench._real import PEERS, peers
from bench._sides import Answer, Side, our_python, peer_python, pinned_versions, running
from bench.inputs import binance, coinbase, kraken, upbit
from bench.inputs.cases import CASES
from bench.inputs.stored import Inputs
from bench.inputs.truth import Seal, tell_truth

ROUNDS = 3
INPUTS: dict[str, Callable[[Path], Seal]] = {
    "binance": lambda folder: tell_truth(binance.make_inputs(folder)),
    "kraken": kraken.make_inputs,
    "coinbase": coinbase.make_inputs,
    "upbit": upbit.make_inputs,
}
"""Makes an exchange's inputs in a folder and says what is true of them."""
FORMATS = {
    "binance": "the same bytes",
    "kraken": "ten levels a side, every update's checksum compared by all; ours and cryptofeed 3:"
    " the same bytes, WebSocket version 2; cryptofeed 2: the same events in version 1",
    "coinbase": "the same events: ours in the Exchange API's format, cryptofeed's in Advanced"
    " Trade's; no tickers, which cryptofeed 2 does not read",
    "upbit": "the same bytes, in the short spelling; books and trades",
}
"""What the sides are given; a case's name begins with its exchange's."""
HOW = ("one_decimals", "one_text", "batch_decimals", "batch_text")
"""How ours reads: frames at once, and what becomes of numbers."""
SEEN = {
    "binance_book": {"touches"},
    "binance_trades": {"trades"},
    "binance_ticker": {"tickers"},
}
"""What there is to see in a case, where that is not everything the truth has counted."""
WITHOUT_BOOKS = {"binance_trades", "binance_ticker"}

Spent = dict[str, dict[str, list[float]]]
"""Microseconds of CPU per message, by side or by how ours reads, and by case: one for each round.
"""


def compare(ours: Side, others: Sequence[Side], truths: Mapping[str, Seal]) -> Spent:
    """Ask everybody for everything, in turn, another one first in each round and case."""
    asked = {how: (ours, f"{how} ") for how in HOW} | {side.name: (side, "") for side in others}
    spent: Spent = {name: {case: [] for case in CASES} for name in asked}
    names = list(asked)
    for turn in range(ROUNDS):
        for number, case in enumerate(CASES):
            first = (turn + number) % len(names)
            for name in names[first:] + names[:first]:
                side, how = asked[name]
                answer = side.ask(f"{how}{case}")
                _check(side, case, answer, truths[_exchange(case)])
                spent[name][case].append(answer["us"])
        print(f"   round {turn + 1} of {ROUNDS}: load {os.getloadavg()[0]:.1f}", flush=True)
    return spent


def _check(side: Side, case: str, answer: Answer, truth: Seal) -> None:
    for kind in SEEN.get(case, {"touches", "trades", "tickers"} & truth.keys()):
        if answer["seen"].get(kind) != truth[kind]:
            raise SystemExit(f"{side.name} saw {answer['seen']} where there are {truth} in {case}")
    if case not in WITHOUT_BOOKS and answer["books"] != truth["books_digest"]:
        raise SystemExit(f"{side.name} ended with other books than the truth in {case}")


def _exchange(case: str) -> str:
    return case.partition("_")[0]


def _ratios(spent: Spent, peer: str) -> dict[str, dict[str, float]]:
    """How much more the peer takes, by how ours reads and by case."""
    return {
        how: {
            case: round(
                statistics.median(
                    theirs / us
                    for us, theirs in zip(spent[how][case], spent[peer][case], strict=True)
                ),
                2,
            )
            for case in CASES
        }
        for how in HOW
    }


def _limits(folder: Path) -> dict[str, float] | str:
    """What the loop in C takes, by exchange; or why that is not known."""
    found = {}
    for name in INPUTS:
        us = measure_loop(Inputs(folder / name), folder)
        if us is None:
            return "not measured: there is neither cc nor ziglang"
        found[name] = round(us, 3)
    return found


def _shares(ours_us: Mapping[str, float], limits: Mapping[str, float] | str) -> dict[str, float]:
    """What the loop takes of what ours takes, where both read all frames of an exchange."""
    if isinstance(limits, str):
        return {}
    mixes = {case: _exchange(case) for case in CASES if "_mix" in case}
    return {case: round(limits[name] / ours_us[case], 3) for case, name in mixes.items()}


def _start(stack: ExitStack, name: str, folder: str) -> Side:
    module, python = "bench.peers.cryptofeed_decode", peer_python(name, PEERS[name])
    return stack.enter_context(running(name, python, module, folder))


def main() -> Mapping[str, object]:
    """Make the inputs, hear the truth, then measure."""
    names, load = peers(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, ExitStack() as stack:
        truths = {name: make(Path(folder) / name) for name, make in INPUTS.items()}
        ours = stack.enter_context(running("ours", our_python(), "bench.ours.decode", folder))
        others = [_start(stack, name, folder) for name in names]
        for side in (ours, *others):
            for name, truth in truths.items():
                told = side.ask(f"testify {name}")
                if told != truth:
                    raise SystemExit(f"{side.name} does not tell the truth:\n{told}\n{truth}")
        spent = compare(ours, others, truths)
        limits = _limits(Path(folder))
    ratios = {name: _ratios(spent, name) for name in names}
    medians = {
        name: {case: round(statistics.median(us), 2) for case, us in found.items()}
        for name, found in spent.items()
    }
    return {
        "equal_work": ratios[names[0]]["one_decimals"],
        "ratios": ratios[names[0]],
        "ratios_to_2_4_1": ratios["cryptofeed"],
        "us": medians,
        "c_loop_us": limits,
        "share_of_c_loop": _shares(medians["batch_text"], limits),
        "formats": FORMATS,
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "versions": {
            "msgspec": version("msgspec"),
            **{name: pinned_versions(name, ("cryptofeed",))["cryptofeed"] for name in names},
        },
    }
