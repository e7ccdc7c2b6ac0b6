"""Tracks and limits the subscriptions of each connection to the broker. Pure.

ZeroMQ keeps a tree with a node of some fifty bytes for every byte of a subscription, without limit.
So the broker counts subscriptions, and closes connections that have too many. ZeroMQ reports a
subscription when the first connection adds it, and again when the last one removes it.

Queries are subscriptions too. Answers may be long, and a client that does not read them must not
fill the memory: the next answer is sent only when the client has confirmed earlier ones, by ending
their subscriptions.
"""

from collections import defaultdict, deque

LONGEST = 160
"""Maximum bytes of one subscription: a name, or a query for one."""
_MOST_BYTES = 256 * 1024
"""Maximum bytes of all subscriptions of one connection."""
_MOST_BYTES_IN_ALL = 1024 * 1024
_UNREAD_BYTES = 4 * 1024 * 1024
"""Maximum bytes of unread answers of one connection; above it, its queries wait."""


class _Client:
    """One connection."""

    def __init__(self) -> None:
        self.count = self.bytes = self.unread = 0
        self.questions: deque[bytes] = deque()


class ClientSubscriptions:
    """The subscriptions and queries of all connections."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._clients: dict[int, _Client] = defaultdict(_Client)
        self._held: dict[bytes, _Client] = {}
        self._answers: dict[bytes, int] = {}
        self._ready: deque[_Client] = deque()

    def opened(self, connection: int) -> None:
        """Register a new connection; its descriptor may have belonged to an earlier one."""
        self._clients.pop(connection, None)

    def added(self, connection: int, wanted: bytes) -> str:
        """Add a new subscription; return which limit it exceeds, or an empty string."""
        client = self._clients[connection]
        if wanted in self._held:
            return ""
        client.count += 1
        client.bytes += len(wanted)
        self._bytes += len(wanted)
        self._held[wanted] = client
        if len(wanted) > LONGEST:
            return f"a subscription of more than {LONGEST} bytes"
        if client.count > self._most:
            return f"more than {self._most} subscriptions (bus.subscriptions)"
        if client.bytes > _MOST_BYTES:
            return f"subscriptions of more than {_MOST_BYTES} bytes"
        if self._bytes > _MOST_BYTES_IN_ALL:
            return f"with those of others, subscriptions of more than {_MOST_BYTES_IN_ALL} bytes"
        return ""

    def removed(self, wanted: bytes) -> None:
        """Remove a subscription that no connection has any more."""
        client = self._held.pop(wanted, None)
        if client is None:
            return
        client.count -= 1
        client.bytes -= len(wanted)
        self._bytes -= len(wanted)
        client.unread -= self._answers.pop(wanted, 0)
        self._prepare(client)

    def asked(self, question: bytes) -> None:
        """Queue a subscription that was added, as a query."""
        client = self._held[question]
        client.questions.append(question)
        self._prepare(client)

    def next_question(self) -> bytes | None:
        """Return the next query to answer, in turn between connections."""
        while self._ready:
            client = self._ready.popleft()
            while client.questions:
                question = client.questions.popleft()
                if self._held.get(question) is client:
                    self._ready.append(client)
                    return question
        return None

    def answered(self, question: bytes, size: int) -> None:
        """Record that ``size`` bytes were sent in answer to a query."""
        client = self._held[question]
        self._answers[question] = size
        client.unread += size
        if client.unread > _UNREAD_BYTES or not client.questions:
            self._ready.remove(client)

    def _prepare(self, client: _Client) -> None:
        if client.questions and client.unread <= _UNREAD_BYTES and client not in self._ready:
            self._ready.append(client)
