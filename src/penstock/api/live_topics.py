"""All topics of the live WebSocket, by name."""

from functools import partial

from penstock.api.app_state import AppState
from penstock.api.live_feeds import Feed
from penstock.api.topics import Topic, TopicFamily, Topics

TOPICS: Topics = {}


def feed_of(topic: str, app_state: AppState, topics: Topics) -> Feed | None:
    """Return how to read a topic; None if there is no such topic."""
    exact = topics.get(topic)
    if isinstance(exact, Topic):
        return Feed(exact.period_s, partial(exact.read, app_state))
    prefix, slash, rest = topic.partition("/")
    family = topics.get(prefix + slash)
    if isinstance(family, TopicFamily) and rest:
        return Feed(family.period_s, partial(family.read, app_state, rest))
    return None
