"""Joined metrics: every series once, with its process, and each family's help and type once."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as CounterMetric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from penstock.stats.fleet_metrics import FLEET_FAMILIES
from penstock.stats.merging import ProcessText, families, merge
from penstock.stats.metrics import Metrics

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=6)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """What a process serves: some of three families."""
    registry = CollectorRegistry()
    if draw(st.booleans()):
        gauge = Gauge("a_size", "A gauge\nwith {braces}.", ["x", "y"], registry=registry)
        for labels in draw(st.lists(st.tuples(WORDS, WORDS), max_size=3)):
            gauge.labels(*labels).set(draw(st.floats(allow_nan=False)))
    if draw(st.booleans()):
        CounterMetric("things", "A counter.", registry=registry).inc(draw(st.integers(0, 9)))
    if draw(st.booleans()):
        histogram = Histogram("took_seconds", "A histogram.", ["x"], registry=registry)
        histogram.labels(draw(WORDS)).observe(1)
    return generate_latest(registry)


@given(st.dictionaries(WORDS.filter(bool), texts(), max_size=4))
def test_every_sample_is_there_once_with_its_process(found: dict[str, bytes]) -> None:
    merged = merge(ProcessText(process, text) for process, text in found.items()).decode()

    expected = Counter(
        _sample(sample, process)
        for process, text in found.items()
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    )
    samples = Counter(
        _sample(sample)
        for family in text_string_to_metric_families(merged)
        for sample in family.samples
    )
    assert samples == expected
    heads = Counter(" ".join(line.split()[1:3]) for line in merged.split("\n") if line[:2] == "# ")
    assert set(heads.values()) <= {1}
    assert families(merged.encode()) == set().union(*map(families, found.values()))


def _sample(sample: Sample, process: str = "") -> tuple[str, frozenset[tuple[str, str]], float]:
    labels = {**sample.labels, "process": process} if process else sample.labels
    return sample.name, frozenset(labels.items()), sample.value


def test_a_series_that_appears_twice_is_kept_once() -> None:
    text = b'# HELP x X.\n# TYPE x gauge\nx{a="1"} 1.0\nx{a="1"} 2.0\n'

    merged = merge([ProcessText("p", text), ProcessText("p", text)])

    assert merged == b'# HELP x X.\n# TYPE x gauge\nx{process="p",a="1"} 1.0\n'


def test_a_family_of_another_type_is_left_out() -> None:
    first, other = (
        b"# HELP x X.\n# TYPE x gauge\nx 1.0\n",
        b"# HELP x X.\n# TYPE x counter\nx 2.0\n",
    )

    merged = merge([ProcessText("p", first), ProcessText("q", other)])

    assert merged == b'# HELP x X.\n# TYPE x gauge\nx{process="p"} 1.0\n'


def test_what_is_known_of_the_fleet_is_not_counted_again() -> None:
    fleet = b"# HELP x X.\n# TYPE x counter\nx 3.0\n"
    text = b"# HELP x X.\n# TYPE x counter\nx 2.0\n# HELP y Y.\n# TYPE y gauge\ny 1.0\n"

    merged = merge([ProcessText("", fleet), ProcessText("p", text)], of_fleet=families(fleet))

    assert merged == fleet + b'# HELP y Y.\n# TYPE y gauge\ny{process="p"} 1.0\n'
    assert "penstock_requests_total" in FLEET_FAMILIES & families(Metrics().text())
    assert "penstock_request_seconds" not in FLEET_FAMILIES
