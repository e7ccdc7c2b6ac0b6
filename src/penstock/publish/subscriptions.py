"""Subscriptions: what is asked for by which connection, and what each may ask for. Pure.

ZeroMQ keeps a tree with a node for every byte of a subscription, some fifty bytes each, as many as
there are. So the broker counts them, and closes the connections that ask for too much. It is told
of a subscription when the first connection asks for it, and when the last one does no more.

Questions are subscriptions too. Answers may be long, and one who does not read them must not fill
the memory: the next answer waits until the asker has said, by ending that subscription, that it
has got those before.
"""

from collections import defaultdict, deque

LONGEST = 160
"""Bytes of one subscription: a name, or a question about one."""
_MOST_BYTES = 256 * 1024
"""… of all subscriptions of one connection …"""
_MOST_BYTES_IN_ALL = 1024 * 1024
_UNREAD_BYTES = 4 * 1024 * 1024
"""No further question is answered while answers of so many bytes may be unread."""


class _Client:
    """One connection."""

    def __init__(self) -> None:
        self.count = self.bytes = self.unread = 0
        self.questions: deque[bytes] = deque()


class ClientSubscriptions:
    """Who asked for what."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._clients: dict[int, _Client] = defaultdict(_Client)
        self._held: dict[bytes, _Client] = {}
        self._answers: dict[bytes, int] = {}
        self._ready: deque[_Client] = deque()

    def opened(self, connection: int) -> None:
        """A connection is new, whoever had its number before."""
        self._clients.pop(connection, None)

    def added(self, connection: int, wanted: bytes) -> str:
        """Somebody asked for something that nobody had; why that is too much, if it is."""
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
        """Nobody asks for this any more."""
        client = self._held.pop(wanted, None)
        if client is None:
            return
        client.count -= 1
        client.bytes -= len(wanted)
        self._bytes -= len(wanted)
        client.unread -= self._answers.pop(wanted, 0)
        self._prepare(client)

    def asked(self, question: bytes) -> None:
        """One that was added is a question."""
        client = self._held[question]
        client.questions.append(question)
        self._prepare(client)

    def next_question(self) -> bytes | None:
        """The next one to be answered, taking turns between those who ask."""
        while self._ready:
            client = self._ready.popleft()
            while client.questions:
                question = client.questions.popleft()
                if self._held.get(question) is client:
                    self._ready.append(client)
                    return question
        return None

    def answered(self, question: bytes, size: int) -> None:
        """So many bytes were sent."""
        client = self._held[question]
        self._answers[question] = size
        client.unread += size
        if client.unread > _UNREAD_BYTES or not client.questions:
            self._ready.remove(client)

    def _prepare(self, client: _Client) -> None:
        if client.questions and client.unread <= _UNREAD_BYTES and client not in self._ready:
            self._ready.append(client)
