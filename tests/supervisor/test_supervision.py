"""The supervisor's decisions, over any course of events: one process each, in order, to the end."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.errors import TEMPORARY
from penstock.resilience.backoff import Backoff
from penstock.supervisor.child import SETTINGS_WRONG, Child
from penstock.supervisor.commands import Command, Kill, Start, Terminate, WakeAt
from penstock.supervisor.facts import (
    ProcessEnded,
    ProcessGivenUp,
    ProcessKilled,
    ProcessUnhealthy,
)
from penstock.supervisor.model import STOP_PHASES, ChildPlan, Rules, Seen
from penstock.supervisor.supervision import Supervision
from penstock.telemetry import Fact

S = 1_000_000_000
RULES = Rules(backoff=Backoff(first_s=1, longest_s=8), restart_limit=3, stop_timeout_s=30)
COLLECT, FETCH = (
    ChildPlan(f"{kind}:sim", kind, (kind, "sim"), "sim") for kind in ("collect", "fetch")
)
KEEP, BUS, SERVE = (ChildPlan(kind, kind, (kind,)) for kind in ("keep", "bus", "serve"))
WORK = ChildPlan("work:0", "work", ("work",))
ALL = (BUS, COLLECT, FETCH, WORK, KEEP, SERVE)


class World:
    """Processes that do what the commands say, and are checked for what must never happen."""

    def __init__(
        self, plans: tuple[ChildPlan, ...] = ALL, rules: Rules = RULES, seed: int = 1
    ) -> None:
        self.facts: list[Fact] = []
        draws = random.Random(seed)
        self.machine = Supervision(plans, rules, draws.random, self.facts.append)
        self.now = 0
        self.alive: dict[str, int] = {}
        self.told: dict[str, int] = {}
        """Those that were sent SIGTERM, with the time."""
        self.starts = dict.fromkeys((plan.name for plan in plans), 0)
        self.wake: int | None = None
        self._pids = iter(range(100, 1_000_000))

    def do(self, commands: list[Command]) -> None:
        self.wake = next((each.at_ns for each in commands if isinstance(each, WakeAt)), None)
        for each in commands:
            match each:
                case Start(name):
                    assert name not in self.alive, "a process is started only once"
                    assert not self.machine.is_stopping, "nothing is started at the end"
                    self.alive[name] = next(self._pids)
                    self.starts[name] += 1
                    self.do(self.machine.started(name, self.alive[name], self.now))
                case Terminate(name):
                    assert name in self.alive
                    assert name not in self.told, "it was told to stop already"
                    if self.machine.is_stopping:
                        self._check_order(name)
                    self.told[name] = self.now
                case Kill(name):
                    assert name in self.told
                    assert self.now - self.told[name] <= RULES.stop_timeout_s * S
                    self.die(name, -9)

    def _check_order(self, name: str) -> None:
        phase = self.machine.children[name].plan.phase
        for other in self.alive:
            assert self.machine.children[other].plan.phase >= phase, f"{name} before {other}"

    def die(self, name: str, code: int) -> None:
        del self.alive[name]
        self.told.pop(name, None)
        self.do(self.machine.exited(name, code, self.now))

    def advance(self, seconds: float) -> None:
        end = self.now + round(seconds * S)
        while self.wake is not None and self.wake <= end:
            self.now = max(self.now, self.wake)
            self.do(self.machine.woken(self.now))
        self.now = end

    def state(self, plan: ChildPlan) -> str:
        return self.machine.children[plan.name].state


def started(*plans: ChildPlan, rules: Rules = RULES) -> World:
    world = World(plans or ALL, rules)
    world.do(world.machine.start_all(0))
    return world


def of(world: World, kind: type[Fact]) -> list[Fact]:
    return [fact for fact in world.facts if isinstance(fact, kind)]


NAMES = st.sampled_from([plan.name for plan in ALL])
CODES = st.sampled_from([0, 1, SETTINGS_WRONG, TEMPORARY, -9, -15])
STEPS = st.one_of(
    st.tuples(st.just("exit"), NAMES, CODES),
    st.tuples(st.just("restart"), NAMES, st.none()),
    st.tuples(st.just("stop"), NAMES, st.none()),
    st.tuples(st.just("start"), NAMES, st.none()),
    st.tuples(st.just("wait"), st.none(), st.sampled_from([0.1, 1.0, 7.0, 61.0, 200.0])),
    st.tuples(st.just("see"), st.sampled_from(["all", "none", "error"]), st.none()),
)


@given(st.lists(STEPS, max_size=60), st.integers(0, 1000), st.booleans())
def test_whatever_happens_each_runs_at_most_once_and_all_end_in_order(
    steps: list[tuple[str, str, float]], seed: int, obey: bool
) -> None:
    world = World(seed=seed)
    machine = world.machine
    world.do(machine.start_all(0))
    for what, name, value in steps:
        if what == "exit" and name in world.alive:
            world.die(name, int(value))
        elif what in ("restart", "stop", "start"):
            world.do(getattr(machine, what)([name], world.now))
        elif what == "wait":
            world.advance(value)
        elif what == "see":
            seen = {each: Seen(world.now, True, world.now) for each in world.alive}
            given_ = {"all": seen, "none": {}, "error": None}[name]
            world.do(machine.seen(given_, world.now))
        running = {n for n, c in machine.children.items() if c.state in ("running", "stopping")}
        assert running == world.alive.keys()
        waiting = [c for c in machine.children.values() if c.state in ("waiting", "stopping")]
        assert all(c.due_ns is not None for c in waiting), "it would wait for ever"
        assert (world.wake is not None) == any(
            c.due_ns is not None for c in machine.children.values()
        )

    world.do(machine.stop_all(world.now))
    for _ in range(2 * len(ALL)):
        if obey:
            for name in list(world.told):
                world.die(name, 0)
        world.advance(RULES.stop_timeout_s)
    assert machine.is_over
    assert not world.alive


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(st.tuples(CODES, st.sampled_from([0.0, 5.0, 59.0, 60.0, 500.0])), max_size=40))
def test_it_is_given_up_only_after_failures_in_a_row_or_when_it_says_so(
    ends: list[tuple[int, float]],
) -> None:
    world, crashes = started(WORK), 0
    for code, ran_s in ends:
        world.advance(ran_s)
        crashes = 0 if ran_s >= RULES.stable_after_s else crashes
        crashes += code != TEMPORARY
        before = world.now
        world.die(WORK.name, code)
        if code == SETTINGS_WRONG or crashes >= RULES.restart_limit:
            assert world.state(WORK) == "given up"
            assert len(of(world, ProcessGivenUp)) == 1
            world.advance(10_000)
            assert not world.alive, "nothing starts it but the operator"
            world.do(world.machine.restart([WORK.name], world.now))
            assert world.alive, "the operator does"
            return
        assert world.wake is not None
        assert 0.5 * S <= world.wake - before <= 8 * S
        world.advance((world.wake - world.now) / S)
        assert world.alive


def test_delays_double_and_are_forgotten_once_it_ran_for_a_while() -> None:
    world = started(WORK, rules=Rules(backoff=Backoff(first_s=1, longest_s=8, jitter=0)))
    for _ in range(6):
        world.die(WORK.name, 1)
        world.advance(8)
    world.advance(60)
    world.die(WORK.name, 1)

    delays = [fact.again_in_s for fact in of(world, ProcessEnded) if isinstance(fact, ProcessEnded)]
    assert delays == [1, 2, 4, 8, 8, 8, 1]


def test_one_that_does_not_stop_is_killed_and_the_next_phase_waits_for_it() -> None:
    world = started(COLLECT, KEEP)
    world.do(world.machine.stop_all(world.now))
    assert world.told.keys() == {COLLECT.name}
    world.advance(29)
    assert world.alive.keys() == {COLLECT.name, KEEP.name}
    world.advance(1)

    assert world.told.keys() == {KEEP.name}
    assert of(world, ProcessKilled) == [ProcessKilled(process=COLLECT.name, after_s=30.0)]


def test_a_restart_is_no_failure_and_has_no_delay() -> None:
    world = started(COLLECT)
    for _ in range(2 * RULES.restart_limit):
        world.do(world.machine.restart([COLLECT.name], world.now))
        world.die(COLLECT.name, 0)

    assert world.alive
    assert world.machine.children[COLLECT.name].restarts == 2 * RULES.restart_limit
    assert not of(world, ProcessEnded)


def test_stopped_by_the_operator_it_stays_so_until_started() -> None:
    world = started(COLLECT)
    world.do(world.machine.stop([COLLECT.name], world.now))
    world.die(COLLECT.name, 0)
    world.advance(1000)
    assert world.state(COLLECT) == "stopped"

    world.do(world.machine.start([COLLECT.name], world.now))
    assert world.state(COLLECT) == "running"


def test_started_again_while_it_stops_it_runs_once_it_has_ended() -> None:
    world = started(COLLECT)
    world.do(world.machine.stop([COLLECT.name], world.now))
    world.do(world.machine.start([COLLECT.name], world.now))
    world.die(COLLECT.name, 0)

    assert world.alive
    assert not of(world, ProcessEnded)


def test_one_that_hangs_is_started_without_delay_if_the_operator_says_so_meanwhile() -> None:
    world = started(WORK, rules=replace(RULES, restart_limit=1))
    for _ in looks(world, 70, beats=False, data=set()):
        pass
    assert world.state(WORK) == "stopping"
    world.do(world.machine.restart([WORK.name], world.now))
    world.advance(15)  # it does not obey, and is killed

    assert world.state(WORK) == "running"
    assert world.starts[WORK.name] == 2


def test_a_process_that_cannot_be_started_is_tried_again_and_then_given_up() -> None:
    child = Child(WORK, RULES, lambda: 0.0, lambda _: None)
    child.start(0)
    now = 0
    for _ in range(RULES.restart_limit - 1):
        child.start_failed("no memory", now)
        assert child.due_ns is not None
        now = child.due_ns
        child.woken(now)
    child.start_failed("no memory", now)

    assert child.state == "given up"
    assert "no memory" in child.reason


def looks(world: World, seconds: float, *, beats: bool, data: set[str]) -> Iterator[int]:
    """See the statuses every five seconds, with or without new ones and new data."""
    for _ in range(round(seconds / 5)):
        world.advance(5)
        at = world.now if beats else 1
        seen = {name: Seen(at, True, world.now if name in data else None) for name in world.alive}
        world.do(world.machine.seen(seen, world.now))
        yield world.now


def unhealthy(world: World) -> list[str]:
    found = of(world, ProcessUnhealthy)
    return [fact.process for fact in found if isinstance(fact, ProcessUnhealthy)]


def see(world: World, seconds: float, *, beats: bool = True, data: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    for _ in looks(world, seconds, beats=beats, data=data):
        for name in list(world.told):
            world.die(name, 0)


def test_a_process_without_signs_of_life_is_killed_and_started_again() -> None:
    world = started(WORK)
    for _ in looks(world, 60, beats=False, data=set()):
        pass
    assert not world.told
    for _ in looks(world, 10, beats=False, data=set()):
        pass
    assert unhealthy(world) == [WORK.name]
    world.advance(15)  # it was stopped by a signal, and so does not obey this one

    assert world.starts[WORK.name] == 2


def test_one_that_hangs_each_time_is_given_up() -> None:
    world = started(WORK)
    for _ in looks(world, 1000, beats=False, data=set()):
        pass

    assert world.starts[WORK.name] == RULES.restart_limit
    assert world.state(WORK) == "given up"


def test_one_that_never_writes_a_status_is_restarted() -> None:
    world = started(WORK)
    for _ in range(37):
        world.advance(5)
        world.do(world.machine.seen({}, world.now))

    assert unhealthy(world) == [WORK.name]


def test_while_the_store_does_not_answer_nobody_looks_hung() -> None:
    world = started(*ALL)
    see(world, 10, beats=False)
    for _ in range(100):
        world.advance(5)
        world.do(world.machine.seen(None, world.now))
    see(world, 60, beats=False)

    assert not unhealthy(world)


def test_a_suspended_machine_makes_nobody_look_hung() -> None:
    world = started(*ALL)
    see(world, 50, beats=False)
    world.advance(3600)
    see(world, 60, beats=False)

    assert not unhealthy(world)


def test_one_that_delivers_nothing_while_others_of_its_exchange_do_is_restarted() -> None:
    world = started(COLLECT, FETCH)
    see(world, 700, data={FETCH.name})

    assert unhealthy(world) == [COLLECT.name]
    assert world.starts[COLLECT.name] == 2


def test_an_exchange_that_is_silent_to_all_is_no_reason_to_restart() -> None:
    world = started(COLLECT, FETCH)
    see(world, 300, data={COLLECT.name, FETCH.name})
    see(world, 24 * 3600)

    assert not unhealthy(world)


@pytest.mark.parametrize("ends", ["stopped", "given up"])
def test_those_that_will_not_run_do_not_make_an_exchange_look_silent(ends: str) -> None:
    world = started(COLLECT, FETCH)
    if ends == "stopped":
        world.do(world.machine.stop([FETCH.name], world.now))
        world.die(FETCH.name, 0)
    else:
        world.die(FETCH.name, SETTINGS_WRONG)
    assert world.state(FETCH) == ends
    see(world, 700)

    assert unhealthy(world) == [COLLECT.name]


def test_a_quiet_market_alone_costs_a_few_restarts_and_is_never_given_up() -> None:
    world = started(COLLECT)
    see(world, 24 * 3600)
    # After 600 s, 1200 s, 2400 s and so on; then once in about 11 hours.
    assert unhealthy(world) == [COLLECT.name] * 7
    assert world.state(COLLECT) == "running"

    see(world, 10, data={COLLECT.name})
    see(world, 700)
    assert len(unhealthy(world)) == 8, "after data came, the time is short again"


def test_one_that_delivers_every_hour_has_three_hours() -> None:
    hourly = replace(FETCH, pace_s=3600)
    world = started(COLLECT, hourly)
    see(world, 3 * 3600, data={COLLECT.name})
    assert not unhealthy(world)

    see(world, 60, data={COLLECT.name})
    assert unhealthy(world) == [hourly.name]


@pytest.mark.parametrize("plan", [KEEP, BUS, SERVE, WORK])
def test_no_data_is_expected_of_others(plan: ChildPlan) -> None:
    world = started(plan)
    see(world, 24 * 3600)

    assert not unhealthy(world)


def test_every_kind_has_a_phase_and_producers_are_first() -> None:
    assert STOP_PHASES["collect"] < STOP_PHASES["keep"] < STOP_PHASES["bus"] < STOP_PHASES["serve"]
