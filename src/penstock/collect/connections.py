"""What a process reports of its connections to the streams of an exchange."""

from collections.abc import Iterable

from penstock.collect.feed_session import FeedState
from penstock.runtime.reports import ConnectionReport
from penstock.streaming.shard import Shard
from penstock.streaming.shard_connection import ShardConnection


def connections_of(exchange: str, shards: Iterable[Shard], now_ns: int) -> list[ConnectionReport]:
    """The connections of these shards, which carry streams of one exchange."""
    return [
        _report(exchange, f"{number}.{member.number}", member, now_ns)
        for number, shard in enumerate(shards, 1)
        for member in shard.members.values()
    ]


def _report(exchange: str, name: str, member: ShardConnection, now_ns: int) -> ConnectionReport:
    connection, history = member.connection, member.history
    lifetime_s = connection.limits.lifetime_s
    return ConnectionReport(
        exchange=exchange,
        name=name,
        state="leaving" if member.leaving else connection.state,
        since_ms=history.changed_ms,
        messages=history.messages,
        messages_per_s=history.per_second(now_ns),
        last_message_ms=_ms(member.last_message_ns),
        asked=connection.asked,
        pending=len(connection.pending),
        lifetime_ms=None if lifetime_s is None else round(lifetime_s * 1000),
        reconnects=history.reconnects,
        events=history.events(now_ns // 1_000_000),
    )


def feed_connection(exchange: str, feed: FeedState, now_ns: int) -> ConnectionReport:
    """The connections of a library, as one: their number is not known."""
    history = feed.history
    return ConnectionReport(
        exchange=exchange,
        name="1",
        state=feed.state,
        since_ms=history.changed_ms,
        last_message_ms=_ms(feed.last_message_ns),
        asked=feed.followed,
        reconnects=history.reconnects,
        events=history.events(now_ns // 1_000_000),
    )


def _ms(at_ns: int | None) -> int | None:
    return None if at_ns is None else at_ns // 1_000_000
