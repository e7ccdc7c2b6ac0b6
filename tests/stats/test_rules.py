"""The alert rules: their expressions are well-formed, and name metrics that exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.exchanges.facts import RequestSent
from penstock.stats.fleet_metrics import fleet_text
from penstock.stats.metrics import Metrics

RULES = Path(__file__).parents[2] / "deploy" / "prometheus-alerts.yml"
THRESHOLDS = {
    "ExchangeResponseTime": ["> 3"],
    "ExchangeErrorRate": ["> 0.1"],
    "RateLimitErrors": ["* 60 > 10"],
    "CircuitBreakerOpens": ["> 0", "> 0"],
}
_TOKEN = re.compile(r"\s*([a-z_]+|\d+(?:\.\d+)?[smhd]?|[()\[\],<>*/+-])")
_FUNCTIONS, _AGGREGATES = ("rate", "increase"), ("sum", "max")
_OPERATORS = ("/", "*", "+", "-", ">", "<", "or", "unless", "and")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


class Expression:
    """An expression of the part of PromQL that the rules use; the metrics that it names."""

    def __init__(self, text: str) -> None:
        found = [match[1] for match in _TOKEN.finditer(text)]
        assert "".join(found) == re.sub(r"\s", "", text), "there is something else in it"
        self._tokens, self.metrics = found, set[str]()
        self._whole()
        assert not self._tokens, f"what is {self._tokens} at the end?"

    def _take(self, *expected: str) -> str:
        assert self._tokens, f"it ends before {expected}"
        token = self._tokens.pop(0)
        assert not expected or token in expected, f"{token}, not {expected}"
        return token

    def _whole(self) -> None:
        self._part()
        while self._tokens and self._tokens[0] in _OPERATORS:
            self._take()
            self._part()

    def _part(self) -> None:
        token = self._take()
        if token in _AGGREGATES:
            for word in ("by", "(", "exchange", ")"):
                self._take(word)
            self._in_brackets()
        elif token in _FUNCTIONS:
            self._take("(")
            self._metric(self._take())
            for word in ("[", "5m", "]") if token == "rate" else ("[", "10m", "]"):
                self._take(word)
            self._take(")")
        elif token == "(":
            self._tokens.insert(0, token)
            self._in_brackets()
        elif not re.fullmatch(r"[\d.]+", token):
            self._metric(token)

    def _in_brackets(self) -> None:
        self._take("(")
        self._whole()
        self._take(")")

    def _metric(self, name: str) -> None:
        assert name.startswith("penstock_"), name
        self.metrics.add(name)
        if self._tokens[:1] == ["offset"]:
            self._take()
            assert re.fullmatch(r"\d+m", self._take())


def shown(text: bytes) -> Iterator[str]:
    for line in text.decode().splitlines():
        if not line.startswith("#"):
            yield re.split(r"[{ ]", line)[0]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_names_metrics_that_exist_and_has_the_threshold(rule: dict[str, Any]) -> None:
    metrics = Metrics()
    metrics(RequestSent(exchange="x", path="/p", cost=1, status=200, took_ms=1))
    exist = {*shown(metrics.text()), *shown(fleet_text([], {}, [{"exchange_id": "x"}]))}

    named = Expression(rule["expr"]).metrics

    assert named
    assert named <= exist
    found = re.findall(r"(?:\* \d+ )?> [\d.]+", rule["expr"])
    assert found == THRESHOLDS[rule["alert"]]
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert "{{ $labels.exchange }}" in rule["annotations"]["summary"]


def test_every_alert_is_there_and_in_the_documentation() -> None:
    documented = (RULES.parents[1] / "docs" / "api.md").read_text()

    assert [rule["alert"] for rule in rules()] == list(THRESHOLDS)
    assert all(f"| `{name}` |" in documented for name in THRESHOLDS)


@pytest.mark.parametrize("text", ["rate(penstock_x[5m]", "penstock_x >", "sum(penstock_x)", "x $"])
def test_a_malformed_expression_is_noticed(text: str) -> None:
    with pytest.raises(AssertionError):
        Expression(text)
