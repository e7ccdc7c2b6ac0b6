"""Frames in, events and books out: how much CPU a message costs, next to cryptofeed.

Both sides get the same messages in processes of their own and are asked alternately, case by case:
the same bytes where both speak one format, and otherwise the same events, each in its own format.
A ratio is the peer's CPU time per message over ours, the median over the rounds. Before anything is
timed both must tell the truth: every trade, every best price, the touch after every delta and every
level in the end, as exact decimals; after every timed run, the counts and the books once more.
"""

import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from bench._sides import (
    Answer,
    Side,
    in_turn,
    our_python,
    peer_python,
    pinned_versions,
    running,
)
from bench.inputs import binance, coinbase, kraken, upbit
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
    "kraken": "the same events: ours in WebSocket version 2, cryptofeed's in version 1, the only"
    " one it speaks; ten levels a side, every update's checksum compared by both",
    "coinbase": "the same events: ours in the Exchange API's format, cryptofeed's in Advanced"
    " Trade's, the only one it speaks; no tickers, which it does not read, and its asks are called"
    " 'ask', not 'offer' as on the wire, since it would lose those of every snapshot",
    "upbit": "the same bytes, in the short spelling; no tickers, which cryptofeed does not read",
}
"""What the sides are given; a case's name begins with its exchange's."""
CASES = {
    "binance_mix": "binance_mix",
    "binance_book": "binance_book",
    "binance_book_materialised": "binance_book_materialised",
    "binance_trades": "binance_trades",
    "binance_ticker": "binance_ticker",
    "binance_mix_one_by_one": "binance_mix",
    "binance_mix_decimals": "binance_mix",
    "binance_record_only": "binance_mix",
    "kraken_mix_crc": "kraken_mix_crc",
    "coinbase_mix": "coinbase_mix",
    "upbit_mix": "upbit_mix",
}
"""Our cases, and what the peer does meanwhile. It always reads one frame at a time, makes decimals
and keeps books; ours are also measured when frames come one by one, when every number is asked for
as a decimal, and when events are only recorded."""
WITHOUT_BOOKS = {"binance_trades", "binance_ticker", "binance_record_only"}
SEEN = {
    "binance_book": {"touches"},
    "binance_book_materialised": {"touches"},
    "binance_trades": {"trades"},
    "binance_ticker": {"tickers"},
}
"""What there is to see in a case, where that is not everything the truth has counted."""


def compare(
    ours: Side, peer: Side, truths: Mapping[str, Seal]
) -> dict[str, dict[str, list[float]]]:
    """Microseconds of CPU per message, by side and case, a figure for every round."""
    spent: dict[str, dict[str, list[float]]] = {
        side.name: {case: [] for case in CASES} for side in (ours, peer)
    }
    for turn in range(ROUNDS):
        for number, (case, peers_case) in enumerate(CASES.items()):
            for side in in_turn((ours, peer), turn + number):
                if side is peer and peers_case != case:
                    # The same work as in this round's other case: no need to wait for it again.
                    spent[side.name][case].append(spent[side.name][peers_case][turn])
                    continue
                answer = side.ask(case)
                _check(side, case, answer, truths[_exchange(case)])
                spent[side.name][case].append(answer["us"])
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


def _medians(spent: Mapping[str, list[float]]) -> dict[str, float]:
    return {case: round(statistics.median(figures), 2) for case, figures in spent.items()}


def main() -> Mapping[str, object]:
    """Make the inputs, hear the truth, then measure."""
    peers_python = peer_python("cryptofeed")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        truths = {name: make(Path(folder) / name) for name, make in INPUTS.items()}
        with (
            running("ours", our_python(), "bench.ours.decode", folder) as ours,
            running("cryptofeed", peers_python, "bench.peers.cryptofeed_decode", folder) as peer,
        ):
            for side in (ours, peer):
                for name, truth in truths.items():
                    told = side.ask(f"testify {name}")
                    if told != truth:
                        raise SystemExit(f"{side.name} does not tell the truth:\n{told}\n{truth}")
            spent = compare(ours, peer, truths)
    ratios = {
        case: round(
            statistics.median(
                theirs / us
                for us, theirs in zip(spent["ours"][case], spent["cryptofeed"][case], strict=True)
            ),
            2,
        )
        for case in CASES
    }
    return {
        "ratios": ratios,
        "ours_us": _medians(spent["ours"]),
        "cryptofeed_us": _medians(spent["cryptofeed"]),
        "formats": FORMATS,
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "versions": {
            "msgspec": version("msgspec"),
            **pinned_versions("cryptofeed", ("cryptofeed", "order_book", "yapic.json")),
        },
    }
