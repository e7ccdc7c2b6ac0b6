"""Faults carried out on frames, acknowledgements and requests, without a socket."""

import json

import pytest

from penstock.simulator.engine.facts import FaultInjected
from penstock.simulator.engine.faults import read_plan
from penstock.simulator.engine.injection import (
    ConnectionFaults,
    FaultLog,
    Injector,
    RequestFaults,
    request_faults,
)
from penstock.telemetry import Fact, quiet

STREAM = "a@trade"


def _log() -> FaultLog:
    return FaultLog("toy", quiet)


def _faults(text: str, log: FaultLog | None = None, ordinal: int = 1) -> ConnectionFaults:
    return ConnectionFaults(read_plan(text), ordinal, "/ws", 1000, log or _log())


def _frame(number: int) -> bytes:
    return json.dumps({"n": number, "p": "1.50", "q": "2.00000000"}).encode()


def _sent(faults: ConnectionFaults, count: int, now_ms: int = 1000) -> list[bytes]:
    return [sent for n in range(count) for sent in faults.inject(STREAM, _frame(n), now_ms)]


def test_a_dropped_frame_is_gone_and_the_log_says_what_it_was() -> None:
    facts: list[Fact] = []
    log = FaultLog("toy", facts.append)
    frames = [_frame(n) for n in range(100)]

    sent = _sent(_faults("drop=0.1", log), 100)

    hidden = [entry.hid.encode() for entry in log.entries().rows]
    assert hidden
    assert sorted(sent + hidden) == sorted(frames)
    assert [entry.number - 1 for entry in log.entries().rows] == [frames.index(h) for h in hidden]
    assert facts[0] == FaultInjected(exchange="toy", kind="drop", where=STREAM)


def test_the_same_frames_are_struck_in_every_run_at_any_time() -> None:
    assert _sent(_faults("drop=0.3"), 50) == _sent(_faults("drop=0.3"), 50, now_ms=999_999)
    assert _sent(_faults("drop=0.3"), 50) != _sent(_faults("drop=0.3", ordinal=2), 50)


def test_a_duplicate_follows_itself_at_once() -> None:
    assert _sent(_faults("duplicate=1"), 2) == [_frame(0), _frame(0), _frame(1), _frame(1)]


def test_a_reordered_frame_comes_behind_the_next_and_nothing_is_lost() -> None:
    sent = _sent(_faults("reorder=0.3"), 60)

    numbers = [json.loads(frame)["n"] for frame in sent]
    assert numbers != sorted(numbers)
    missing = set(range(60)) - set(numbers)
    assert missing <= {59}, "only the last may still be waiting for its successor"
    assert len(numbers) == len(set(numbers))


def test_a_delayed_frame_is_due_within_half_a_second() -> None:
    faults = _faults("delay=1")

    assert _sent(faults, 20) == []
    assert faults.due(1000) == []
    due = faults.due(1500)

    assert sorted(d.payload for d in due) == sorted(_frame(n) for n in range(20))
    assert [d.at_ms for d in due] == sorted(d.at_ms for d in due)
    assert faults.due(9999) == []


def test_a_malformed_frame_is_text_but_not_json() -> None:
    (sent,) = _sent(_faults("malformed=1"), 1)

    with pytest.raises(json.JSONDecodeError):
        json.loads(sent.decode())


@pytest.mark.parametrize(("kind", "spoiled"), [("nan", "NaN"), ("huge", "1e999")])
def test_exactly_one_quoted_number_is_spoiled(kind: str, spoiled: str) -> None:
    on_streams = set()
    for sent in _sent(_faults(f"{kind}=1"), 30):
        fields = json.loads(sent)
        (field,) = [name for name, value in fields.items() if value == spoiled]
        on_streams.add(field)

    assert on_streams == {"p", "q"}


def test_a_frame_without_numbers_cannot_be_spoiled() -> None:
    log = _log()

    assert _faults("nan=1", log).inject(STREAM, b'{"x":1}', 1000) == [b'{"x":1}']
    assert log.entries().rows == []


def test_a_muted_connection_falls_silent_after_its_time_and_the_hidden_are_counted() -> None:
    log = _log()
    faults = _faults("mute=2s", log)

    assert len(_sent(faults, 5, now_ms=2999)) == 5
    assert _sent(faults, 5, now_ms=3000) == []
    assert (log.counts["mute"], len(log.entries().rows)) == (5, 1)


def test_a_fault_for_one_stream_spares_the_others() -> None:
    faults = _faults("drop@b@*=1")

    assert faults.inject("a@trade", b"1", 0) == [b"1"]
    assert faults.inject("b@trade", b"1", 0) == []


def test_the_end_of_a_connection_comes_about_when_planned() -> None:
    ends = [_faults("cut=10s", ordinal=n).ends_ms["cut"] - 1000 for n in range(100)]

    assert min(ends) >= 5000
    assert max(ends) <= 15_000
    assert len(set(ends)) > 50
    assert _faults("lifetime=10s").ends_ms == {"lifetime": 11_000}


def test_acknowledgements_are_lost_or_refused() -> None:
    assert _faults("lostack=1").ack(b"ok", 0) == "lost"
    assert _faults("refusedack=1").ack(b"ok", 0) == "refused"
    assert _faults("drop=1").ack(b"ok", 0) == "sent"


def test_the_log_forgets_the_oldest_but_counts_all() -> None:
    log = FaultLog("toy", quiet, remembered=3)

    _sent(_faults("drop=1", log), 10)

    assert [entry.seq for entry in log.entries().rows] == [8, 9, 10]
    assert [entry.seq for entry in log.entries(after_seq=9).rows] == [10]
    assert log.counts["drop"] == 10


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("http500=1", ("http500",)),
        ("http429=1", ("http429",)),
        ("http418=1", ("http418",)),
        ("html=1", ("html",)),
        ("cutbody=1", ("cutbody",)),
        ("stale=1,cutbody=1", ("stale", "cutbody")),
        ("early=1", ("early",)),
        ("latency=5ms", ()),
    ],
)
def test_request_faults_are_named(text: str, kinds: tuple[str, ...]) -> None:
    assert request_faults(read_plan(text), "/depth", 1).kinds == kinds


def test_drawn_times_stay_within_what_is_promised() -> None:
    plan = read_plan("latency=50ms..2s")
    latencies = [request_faults(plan, "/", n).latency_ms or 0 for n in range(300)]
    older = [request_faults(read_plan("stale=1"), "/depth", n).shift_ms for n in range(300)]
    newer = [request_faults(read_plan("early=1"), "/depth", n).shift_ms for n in range(300)]

    assert 50 <= min(latencies) < 200
    assert 1800 < max(latencies) <= 2000
    assert -2000 <= min(older) <= max(older) < 0
    assert 0 < min(newer) <= max(newer) <= 1000


def test_a_healthy_connection_and_request_have_no_faults() -> None:
    injector = Injector(read_plan("http500=1"), _log())

    assert injector.for_connection(1, "/ws", 0) is None
    injector.install(read_plan("drop=1"), now_ms=5000)
    assert injector.for_connection(1, "/ws", 0) is not None
    assert injector.for_request("/depth", 1) == RequestFaults()


def test_a_new_plans_times_run_from_its_installation() -> None:
    injector = Injector(read_plan(""), _log())
    injector.install(read_plan("lifetime=10s,limit=30@2s"), now_ms=5000)

    old, new = injector.for_connection(1, "/ws", 0), injector.for_connection(2, "/ws", 9000)

    assert old is not None
    assert new is not None
    assert (old.ends_ms["lifetime"], new.ends_ms["lifetime"]) == (15_000, 19_000)
    assert [injector.changed_limit(at_ms) for at_ms in (6999, 7000)] == [None, 30]
