"""Settings of what others read: API, metrics and published records."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.ranges import Count, Hours, Port, Seconds
from penstock.config.secret import Secret


class Api(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The REST API (``penstock serve``)."""

    host: str = "127.0.0.1"
    """Address to listen on; an address that other machines can reach needs a token."""
    port: Port = 8780
    """Port to listen on; 0 chooses a free one and prints it."""
    token: Secret = Secret("")
    """Token that clients send as ``Authorization: Bearer …``, at least 16 characters if other
    machines can reach the API; empty: local clients only."""
    read_token: Secret = Secret("")
    """Another token, with which clients may read (``GET``) but change nothing. If only this one
    is set, nothing can be changed over HTTP."""
    session_hours: Hours = 12
    """Hours after which somebody who logged in to the console has to do so again."""
    hosts: tuple[str, ...] = ()
    """Further host names under which clients may reach it, such as that of a proxy."""
    connections: Count = 512
    """Maximum open connections. Above it, a new one replaces the one that is idle longest."""
    headers_s: Seconds = 10
    """Seconds from connecting, or from a request's first byte, to the end of its headers."""
    body_s: Seconds = 20
    """Seconds from the end of a request's headers to the end of its body."""
    idle_s: Seconds = 60
    """Seconds without a request after which a connection is closed."""
    write_s: Seconds = 10
    """Seconds in which a client has to read each 64 KiB of a response."""
    stop_s: Seconds = 2
    """Seconds to finish responses in progress when the server stops."""


class Metrics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prometheus metrics of a process. A server (``penstock serve``) has those of all processes."""

    host: str = "127.0.0.1"
    """Address to serve metrics on, at any path."""
    port: Port = 0
    """Port to serve metrics on, a different one for each process; 0: none."""
    hosts: tuple[str, ...] = ()
    """Further host names under which clients may reach it, such as that of this machine."""
    socket: bool = True
    """Whether each process serves its metrics on a socket in the data folder, too, where a server
    reads them. Needs penstock[api]; without it they are not served."""


class Publish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where new records are published, once they are stored."""

    urls: tuple[str, ...] = ("zeromq:",)
    """Publishers: ``zeromq:`` is the bus, ``zeromq:ADDRESS`` another one; other schemes can be
    added (docs/add-a-publisher.md). Empty: nothing is published."""
    queue: Count = 10_000
    """Maximum messages queued for a publisher that waits for its receivers; ``bus.queue`` applies
    to the bus. More are dropped and counted."""


class Bus(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bus: new records published to other processes (``penstock bus``)."""

    publish: str = "ipc"
    """Address of the broker for publishers: ``tcp://HOST:PORT``, ``ipc://FILE``, or ``ipc``, a
    socket in the data folder. Empty: nothing is published."""
    subscribe: str = "ipc"
    """Address of the broker for subscribers, in the same forms."""
    payload: Literal["json", "msgpack"] = "json"
    """Encoding of records."""
    queue: Count = 10_000
    """Maximum messages queued for one subscriber; a tenth as many batches of them may be queued for
    the broker. More are dropped and counted; subscribers read them from the log."""
    message_bytes: Annotated[int, Meta(ge=1024)] = 4 * 1024 * 1024
    """Maximum size of a message; subscribers read larger records from the log."""
    connections: Count = 1000
    """Maximum publishers, and maximum subscribers, connected to the broker."""
    subscriptions: Count = 5000
    """Topics or topic prefixes that one connection may be the first to subscribe to."""
    linger: Annotated[float, Meta(ge=0, le=60)] = 0.5
    """Seconds a stopping publisher waits for its queued messages to be sent."""
    key_file: str = ""
    """File with this process's own secret key; required if the bus spans several machines."""
    broker_key: str = ""
    """The broker's public key, for publishers and subscribers."""
    clients: str = ""
    """For the broker: folder with the public keys (``*.public``) of clients that may subscribe."""
    publishers: str = ""
    """For the broker: folder with the public keys of clients that may publish. A client that does
    both has its key in both folders."""
