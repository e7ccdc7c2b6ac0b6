"""Telemetry: facts reach everybody who listens, as data."""

import json

import pytest

from penstock.telemetry import Fact, FaultInjected, configure_logging, log_facts, quiet, tell_all

FACT = FaultInjected(exchange="binance", kind="drop", where="btcusdt@trade")


def test_a_listener_that_raises_does_not_silence_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard: list[Fact] = []

    def broken(_: Fact) -> None:
        raise RuntimeError("out of order")

    configure_logging("json")
    tell_all([broken, quiet, heard.append])(FACT)

    assert heard == [FACT]
    assert "out of order" in capsys.readouterr().err


def test_a_fact_becomes_one_structured_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")
    log_facts(FACT)

    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "FaultInjected"
    assert (line["kind"], line["where"], line["level"]) == ("drop", "btcusdt@trade", "info")
    assert "ts" in line


def test_on_a_terminal_the_line_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("human")
    log_facts(FACT)

    assert "FaultInjected" in capsys.readouterr().err
