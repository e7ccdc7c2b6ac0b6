"""Each update is encoded once, and no viewer holds more than two of a topic; the newest wins."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.api.live_hub import MOST_WAITING, LiveHub, Viewer

TOPICS = ("a", "b", "c")
NUMBERS = st.integers(0, 4)


class Model:
    """What one viewer must be sent, by a plain list for each topic."""

    def __init__(self) -> None:
        self.woken = 0
        self.viewer = Viewer(self.wake)
        self.waiting: dict[str, list[int]] = {}
        self.missed = 0

    def wake(self) -> None:
        self.woken += 1

    def expect(self, topic: str, seq: int) -> None:
        waiting = self.waiting.setdefault(topic, [])
        waiting.append(seq)
        if len(waiting) > MOST_WAITING:
            self.missed += 1
            del waiting[0]


class HubMachine(RuleBasedStateMachine):
    """Viewers that come, go, change their topics and read at any speed."""

    def __init__(self) -> None:
        super().__init__()
        self.hub = LiveHub()
        self.models: list[Model] = []
        self.seq: dict[str, int] = {}

    def model(self, number: int) -> Model:
        return self.models[number % len(self.models)]

    @rule()
    def come(self) -> None:
        if len(self.models) < 4:
            self.models.append(Model())

    @precondition(lambda self: self.models)
    @rule(number=NUMBERS, topics=st.lists(st.sampled_from(TOPICS), max_size=4))
    def watch(self, number: int, topics: list[str]) -> None:
        model = self.model(number)
        before = model.viewer.topics
        self.hub.watch(model.viewer, topics)
        model.waiting = {name: seqs for name, seqs in model.waiting.items() if name in topics}
        for topic in dict.fromkeys(topics):
            if topic not in before and topic in self.seq:
                model.expect(topic, self.seq[topic])

    @rule(topic=st.sampled_from(TOPICS), fails=st.booleans())
    def publish(self, topic: str, fails: bool) -> None:
        seq = self.seq[topic] = self.seq.get(topic, 0) + 1
        woken = [model.woken for model in self.models]
        if fails:
            self.hub.fail(topic, seq, "words")
        else:
            self.hub.publish(topic, seq, {"seq": seq})
        for model, before in zip(self.models, woken, strict=True):
            watches = topic in model.viewer.topics
            assert model.woken == before + watches, "whoever waits is woken, and nobody else"
            if watches:
                model.expect(topic, seq)

    @precondition(lambda self: self.models)
    @rule(number=NUMBERS)
    def read(self, number: int) -> None:
        model = self.model(number)
        message = model.viewer.take()
        if message is None:
            assert not any(model.waiting.values())
            return
        sent: dict[str, Any] = msgspec.json.decode(message)
        assert sent["seq"] == model.waiting[sent["topic"]].pop(0) == sent["at_ms"]
        assert sent.get("data", {"seq": sent["seq"]}) == {"seq": sent["seq"]}
        assert ("data" in sent) != ("error" in sent)

    @rule(topic=st.sampled_from(TOPICS))
    def forget(self, topic: str) -> None:
        if not self.hub.is_watched(topic):
            self.hub.forget(topic)
            self.seq.pop(topic, None)

    @invariant()
    def nothing_grows(self) -> None:
        for model in self.models:
            assert len(model.viewer) == sum(map(len, model.waiting.values()))
            assert len(model.viewer) <= MOST_WAITING * len(TOPICS)
            assert model.viewer.dropped == model.missed
            assert set(model.waiting) <= model.viewer.topics
        for topic in TOPICS:
            watched = any(topic in model.viewer.topics for model in self.models)
            assert self.hub.is_watched(topic) == watched


TestHub = HubMachine.TestCase
TestHub.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(st.integers(1, 20))
def test_all_viewers_are_sent_the_same_bytes(viewers: int) -> None:
    hub = LiveHub()
    watching = [Viewer(lambda: None) for _ in range(viewers)]
    for viewer in watching:
        hub.watch(viewer, ["a"])
    hub.publish("a", 1, {"x": [1, 2]})
    messages = [viewer.take() for viewer in watching]

    assert all(message is messages[0] for message in messages), "encoded once"
    assert messages[0] == b'{"topic":"a","seq":1,"at_ms":1,"data":{"x":[1,2]}}'


def test_a_busy_topic_does_not_hold_up_another() -> None:
    hub, viewer = LiveHub(), Viewer(lambda: None)
    hub.watch(viewer, ["busy", "rare"])
    hub.publish("busy", 1, None)
    hub.publish("busy", 2, None)
    hub.publish("rare", 3, None)
    hub.publish("busy", 4, None)
    sent = []
    while (message := viewer.take()) is not None:
        sent.append(msgspec.json.decode(message)["at_ms"])

    assert sent == [2, 3, 4]
    assert viewer.dropped == 1


def test_a_slow_viewer_is_sent_the_two_newest_updates() -> None:
    hub, viewer = LiveHub(), Viewer(lambda: None)
    hub.watch(viewer, ["a", "b"])
    for number in range(1, 6):
        hub.publish("a", number, {})
    hub.publish("b", 1, {})
    sent = [msgspec.json.decode(message) for message in iter(viewer.take, None)]

    assert [(each["topic"], each["seq"]) for each in sent] == [("a", 4), ("b", 1), ("a", 5)]
    assert viewer.dropped == 3
    hub.publish("a", 6, {})
    hub.watch(viewer, ["b"])
    assert viewer.take() is None, "it has left that topic"
