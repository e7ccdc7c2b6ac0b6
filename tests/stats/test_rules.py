"""Rules and dashboard: every query is PromQL, and finds something in what a server returns."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from .busy_fleet import metrics_of_a_busy_fleet

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "penstock.json"
THRESHOLDS = {
    "ExchangeResponseTime": ["> 3"],
    "ExchangeErrorRate": ["> 0.1"],
    "RateLimitErrors": ["* 60 > 10"],
    "CircuitBreakerOpens": ["> 0", "> 0"],
}
OWN = {"up"}
"""What Prometheus itself adds."""
VARIABLES = {"$exchange": ".*", "$process": ".*", "$__rate_interval": "5m"}


class Selector(NamedTuple):
    """A part of a query that names series."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def parsed(text: str) -> promql_parser.Expr:
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    return promql_parser.parse(text)


def parts(expression: Any) -> Iterator[Any]:
    """An expression, and all that it is made of."""
    yield expression
    for name in ("expr", "lhs", "rhs", "args", "param", "vector_selector"):
        found = getattr(expression, name, None)
        for each in found if isinstance(found, list) else [found]:
            if each is not None:
                yield from parts(each)


def selectors(text: str) -> list[Selector]:
    return [
        Selector(
            part.name or "",
            tuple((m.name, str(m.op), m.value) for m in part.matchers.matchers),
        )
        for part in parts(parsed(text))
        if isinstance(part, promql_parser.VectorSelector)
    ]


def grouped(text: str) -> set[str]:
    """The labels by which a query groups."""
    modifiers = [
        part.modifier for part in parts(parsed(text))
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None
    ]  # fmt: skip
    return {label for each in modifiers for label in each.labels}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def queries() -> list[str]:
    found = [
        target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", [])
    ]
    return [*found, *(each["expr"] for each in dashboard()["annotations"]["list"])]


Series = dict[str, list[dict[str, str]]]


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    """By name, the labels of every series in what a server returns."""
    text = metrics_of_a_busy_fleet(tmp_path_factory.mktemp("fleet"))
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def matches(labels: dict[str, str], matchers: tuple[tuple[str, str, str], ...]) -> bool:
    for name, operator, value in matchers:
        own = labels.get(name, "")
        equal = bool(re.fullmatch(value, own)) if "Re" in operator else own == value
        if equal == ("Not" in operator):
            return False
    return True


def check(query: str, series: Series) -> None:
    """A query names series that are there, with labels that they have."""
    labels = set[str]()
    for metric, matchers in selectors(query):
        if metric in OWN:
            continue
        found = [each for each in series.get(metric, []) if matches(each, matchers)]
        assert found, f"{metric}{matchers} is not in what a server returns: {query}"
        assert all(name in each for name, _, _ in matchers for each in found), query
        labels.update(*found)
    assert grouped(query) <= labels | {"le"}, query


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_finds_metrics_that_a_server_returns(rule: dict[str, Any], series: Series) -> None:
    check(rule["expr"], series)

    if rule["alert"] in THRESHOLDS:
        found = re.findall(r"(?:\* \d+ )?> [\d.]+", rule["expr"])
        assert found == THRESHOLDS[rule["alert"]]
    assert rule["labels"]["severity"] in ("warning", "critical")
    labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert labels <= grouped(rule["expr"]), "what an alert names is left by its grouping"


def test_every_alert_is_in_the_documentation_and_has_a_name_of_its_own() -> None:
    documented = (DEPLOY.parent / "docs" / "monitoring.md").read_text()
    names = [rule["alert"] for rule in rules()]

    assert len(names) == len(set(names))
    assert set(THRESHOLDS) < set(names)
    assert not [name for name in names if f"| `{name}` |" not in documented]


@pytest.mark.parametrize("query", queries())
def test_a_query_of_the_dashboard_finds_what_a_server_returns(query: str, series: Series) -> None:
    check(query, series)


def test_the_dashboard_is_whole() -> None:
    panels = dashboard()["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(ids) == len(set(ids))
    places = set[tuple[int, int]]()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}  # fmt: skip
        assert not cells & places, f"{panel['title']} covers another panel"
        assert at["x"] + at["w"] <= 24
        places |= cells
    variables = {f"${each['name']}" for each in dashboard()["templating"]["list"]}
    named = set(re.findall(r"\$\{?(\w+)", DASHBOARD.read_text()))
    assert {f"${name}" for name in named} - {"$__rate_interval", "$__all"} == variables


def test_the_variables_of_the_dashboard_are_labels_that_exist(series: Series) -> None:
    for each in dashboard()["templating"]["list"]:
        if each["type"] == "query":
            found = re.fullmatch(r"label_values\((\w+), (\w+)\)", each["definition"])
            assert found
            assert all(found[2] in labels for labels in series[found[1]])


@pytest.mark.parametrize("text", ["rate(penstock_x[5m]", "penstock_x >", "sum(x) by", "x $"])
def test_a_malformed_expression_is_noticed(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parsed(text)


def test_a_metric_that_does_not_exist_is_noticed(series: Series) -> None:
    for query in ("penstock_nothing > 0", 'penstock_process_up{process="x"} == 0',
                  "sum by (color) (penstock_process_up)"):  # fmt: skip
        with pytest.raises(AssertionError):
            check(query, series)


if shutil.which("promtool"):

    def test_promtool_accepts_the_rules() -> None:
        done = subprocess.run(
            ["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False
        )

        assert done.returncode == 0, done.stdout + done.stderr
