"""Subscription failures: every refusal is counted, and each stream is told of without a flood."""

import json

import pytest

from penstock.market.symbol import Symbol
from penstock.streaming.commands import Close, Subscription
from penstock.streaming.connection import Connection
from penstock.streaming.dialect import Refusal
from penstock.streaming.facts import StreamsPending, StreamsRefused, facts_of
from penstock.streaming.subscription_failures import SubscriptionFailure, SubscriptionFailures
from penstock.streaming.wanted import StreamKey
from penstock.telemetry import configure_logging, log_facts

from .toys import SECOND_NS, A, B, NumberedDialect

STREAM_KEYS: dict[str, StreamKey] = {"a": ("trades", A), "b": ("trades", B)}
NO = Refusal(1, 2, "no such stream")


def test_a_stream_that_is_refused_again_and_again_is_told_of_ever_more_seldom() -> None:
    failures = SubscriptionFailures(STREAM_KEYS.get)
    for _ in range(100):
        failures.refuse(NO, ["a"])

    assert [each.times for each in failures.unreported] == [1, 2, 4, 8, 16, 32, 64]
    assert failures.totals == {("trades", A): 100}
    failures.clear(["a"])
    assert failures.refuse(NO, ["a", "b"]) == 1
    assert failures.unreported[-1] == SubscriptionFailure(
        "refused", 2, NO.words, tuple(STREAM_KEYS.values()), 1
    )


def test_a_refusal_is_an_answer() -> None:
    failures = SubscriptionFailures(STREAM_KEYS.get)
    failures.miss(["a", "b"], 5.0)
    assert failures.unanswered == ["a", "b"]
    failures.refuse(NO, ["a"])
    assert failures.unanswered == ["b"]


def test_failures_of_one_kind_are_one_fact() -> None:
    symbols = [Symbol(f"A{number}", "X") for number in range(300)]
    many = [
        SubscriptionFailure("refused", "subscribe", f"not {number}", (("trades", symbol),), 1)
        for number, symbol in enumerate(symbols)
    ]
    refused, pending = facts_of(
        "toy", [*many, SubscriptionFailure("unanswered", "silent", "no", (), 2)]
    )

    assert isinstance(refused, StreamsRefused)
    assert (refused.code, refused.reason, refused.count) == ("subscribe", "not 0", 300)
    assert refused.streams[0] == "trades a0_x"
    assert len(refused.streams) == 50
    assert pending == StreamsPending(exchange="toy", reason="no", streams=(), count=0, times=2)


def test_refusals_and_missing_answers_are_logged_as_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("json")
    refused = SubscriptionFailure("refused", 2, "no", (STREAM_KEYS["a"],), 1)
    for fact in facts_of("toy", [refused, SubscriptionFailure("unanswered", 0, "", (), 1)]):
        log_facts(fact)

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("StreamsRefused", "warning"), ("StreamsPending", "warning"),
    ]  # fmt: skip
    assert (lines[0]["reason"], lines[0]["streams"]) == ("no", ["trades a_usdt"])


@pytest.mark.parametrize("within_s", [0.5, 20.0])
def test_how_long_an_acknowledgement_is_waited_for_can_be_set(within_s: float) -> None:
    wanted = [Subscription("trades", (A,))]
    machine = Connection(NumberedDialect(), wanted, lambda: 0.5, ack_within_s=within_s)
    machine.start()
    machine.opened(0)
    due_ns = round(within_s * SECOND_NS)
    machine.woken(due_ns - 1)
    assert not any(isinstance(each, Close) for each in machine.take_commands())
    machine.woken(due_ns)

    assert Close("no acknowledgement") in machine.take_commands()
    assert [each.words for each in machine.failures.unreported] == [
        f"no acknowledgement within {within_s:g} s"
    ]
