"""All topics of the live WebSocket, by name."""

from collections.abc import Awaitable, Callable

import msgspec
from litestar.exceptions import HTTPException

from penstock.api.app_state import AppState
from penstock.api.jobs import job_summary
from penstock.api.live_feeds import Feed, ReadFailed
from penstock.api.market import watched_market
from penstock.api.observing import newest_logs
from penstock.api.problems import logged_crash
from penstock.api.topics import Topic, TopicFamily
from penstock.errors import PenstockError
from penstock.monitor.connections import connections
from penstock.monitor.limits import limits
from penstock.telemetry import Listener

TOPICS: dict[str, Topic | TopicFamily] = {
    "overview": Topic(1.0, lambda state: state.monitor.overview(state.store)),
    "processes": Topic(1.0, lambda state: state.monitor.processes(state.store)),
    "connections": Topic(1.0, lambda state: connections(state.store)),
    "limits": Topic(1.0, lambda state: limits(state.store, state.connectors)),
    "jobs": Topic(1.0, job_summary),
    "logs": Topic(1.0, newest_logs),
    "coverage": Topic(2.0, lambda state: state.monitor.gap_counts(state.store)),
    "storage": Topic(5.0, lambda state: state.monitor.storage(state.store)),
    "market/": TopicFamily(0.1, watched_market),
}


def feed_of(topic: str, app_state: AppState, listener: Listener) -> Feed | None:
    """Return how to read a topic; None if there is no such topic."""
    prefix, slash, rest = topic.partition("/")
    match TOPICS.get(prefix + slash if rest else topic):
        case Topic(period_s, read):
            return Feed(period_s, _guarded(topic, lambda: read(app_state), listener))
        case TopicFamily(period_s, read_member) if rest:
            return Feed(period_s, _guarded(topic, lambda: read_member(app_state, rest), listener))
    return None


def _guarded(
    topic: str, read: Callable[[], Awaitable[object]], listener: Listener
) -> Callable[[], Awaitable[msgspec.Raw]]:
    """Return a function that reads and encodes, and has words for every error."""
    crashed: str | None = None

    async def guarded() -> msgspec.Raw:
        nonlocal crashed
        try:
            encoded = msgspec.json.encode(await read())
        except PenstockError as error:
            raise ReadFailed(str(error)) from error
        except HTTPException as error:
            raise ReadFailed(error.detail) from error
        except TimeoutError:
            raise
        except Exception as error:
            # Logged once, not at every attempt.
            if crashed is None:
                crashed = logged_crash(error, "GET", f"live topic {topic}", listener).detail
            raise ReadFailed(crashed) from error
        crashed = None
        return msgspec.Raw(encoded)

    return guarded
