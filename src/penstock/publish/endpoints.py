"""The addresses and keys of the bus, validated before anything starts.

By default the bus is two sockets in the data folder. Slots are numbered per folder, so two folders
on one machine are two buses; and a user without access to the folder cannot connect. Addresses
that other machines can reach need CURVE: the broker authenticates clients by their keys, publishers
and subscribers separately, and clients authenticate the broker by its key.
"""

import secrets
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

import zmq

from penstock.config import Bus, Secret
from penstock.errors import ConfigError, StorageError
from penstock.files import locked, make_folder, replace_file
from penstock.publish.keys import read_public, read_secret
from penstock.publish.readiness import Socket
from penstock.publish.socket_files import private_files, short_endpoint, socket_file

Side = Literal["publish", "subscribe"]
_LOG_ID = Path("bus", "log.id")
_LOG_ID_DIGITS = 16
_RETRY_MS, _RETRY_MOST_MS = 100, 2000
_HANDSHAKE_MS = 3000
_OVERHEAD_BYTES = 64
"""Maximum bytes that encryption adds to a message."""
_WORD_BYTES, _SECRET_WORD_BYTES = 224, 1024
"""Maximum size of a subscription or any other message from a subscriber; the second applies with
CURVE, where the handshake is larger. Larger messages do not reach ZeroMQ's subscription tree."""
_ARRIVED = 8
"""Maximum unread messages per connection in the broker; more wait in the kernel and in the sender's
queue. Messages may be large, and there may be many connections."""
_BEAT_MS = 5000
"""Heartbeat interval; a connection without an answer for three times as long is closed."""


@dataclass(frozen=True)
class BusEndpoints:
    """The addresses of the bus, its settings, and the keys of this process."""

    publish: str
    """The address that publishers connect to and the broker listens on."""
    subscribe: str
    settings: Bus
    folder: Path
    """The data folder."""
    secret: Secret | None = None
    broker_key: str = ""

    @property
    def key_folders(self) -> dict[str, Path | None]:
        """The broker's folders of permitted public keys, by side."""
        publishers, clients = self.settings.publishers, self.settings.clients
        return {
            "publish": Path(publishers) if publishers else None,
            "subscribe": Path(clients) if clients else None,
        }

    def bind(self, socket: Socket, side: Side) -> None:
        """Listen as the broker.

        Raises:
            ConfigError: another program listens there, or the address cannot be bound.
        """
        endpoint: str = getattr(self, side)
        if self.secret is not None:
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, self.secret.reveal().encode())
            # The access guard distinguishes the two sides by their ZAP domains.
            socket.setsockopt(zmq.ZAP_DOMAIN, side.encode())
        self._prepare(socket, endpoint)
        socket.setsockopt(zmq.RCVHWM, min(_ARRIVED, self.settings.queue))
        if side == "subscribe":
            longest = _WORD_BYTES if self.secret is None else _SECRET_WORD_BYTES
            socket.setsockopt(zmq.MAXMSGSIZE, longest)
        try:
            if path := socket_file(endpoint):
                path.parent.mkdir(parents=True, exist_ok=True)
            with private_files():
                socket.bind(short_endpoint(endpoint))
        except (zmq.ZMQError, OSError) as error:
            held = getattr(error, "errno", 0) == zmq.EADDRINUSE
            problem = "another program listens there already" if held else error.strerror
            raise _wrong(side, f"cannot listen on {endpoint}: {problem}.") from error

    def connect(self, socket: Socket, side: Side, queue: int | None = None) -> None:
        """Connect to the broker, now or as soon as it is running."""
        endpoint: str = getattr(self, side)
        if self.secret is not None:
            own = self.secret.reveal().encode()
            socket.setsockopt(zmq.CURVE_SECRETKEY, own)
            socket.setsockopt(zmq.CURVE_PUBLICKEY, zmq.curve_public(own))
            socket.setsockopt(zmq.CURVE_SERVERKEY, self.broker_key.encode())
        self._prepare(socket, endpoint)
        if queue is not None:
            socket.setsockopt(zmq.SNDHWM, queue)
        socket.setsockopt(zmq.RECONNECT_IVL, _RETRY_MS)
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, _RETRY_MOST_MS)
        for everywhere in ("//*:", "//0.0.0.0:", "//[::]:"):
            endpoint = endpoint.replace(everywhere, "//127.0.0.1:")
        socket.connect(short_endpoint(endpoint))

    def _prepare(self, socket: Socket, endpoint: str) -> None:
        socket.setsockopt(zmq.SNDHWM, self.settings.queue)
        socket.setsockopt(zmq.RCVHWM, self.settings.queue)
        socket.setsockopt(zmq.MAXMSGSIZE, self.settings.message_bytes + _OVERHEAD_BYTES)
        socket.setsockopt(zmq.LINGER, round(self.settings.linger * 1000))
        socket.setsockopt(zmq.IPV6, "[" in endpoint)
        # A client that is refused gets no answer; it reconnects after this time.
        socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        if endpoint.startswith("tcp"):
            # If a peer's machine is gone, only a missing heartbeat shows it.
            socket.setsockopt(zmq.HEARTBEAT_IVL, _BEAT_MS)
            socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * _BEAT_MS)


def resolve_endpoints(settings: Bus, folder: Path, *, broker: bool = False) -> BusEndpoints | None:
    """Return the endpoints that are set; None if the bus is disabled.

    Raises:
        ConfigError: an address is invalid, or other machines can reach it and keys are missing.
    """
    if not settings.publish or not settings.subscribe:
        return None
    sides: tuple[Side, Side] = ("publish", "subscribe")
    publish, subscribe = (_find(getattr(settings, side), folder, side) for side in sides)
    if publish == subscribe:
        raise _wrong("subscribe", "is the same as bus.publish; publishers need one of their own.")
    secret = read_secret(Path(settings.key_file)) if settings.key_file else None
    for side, endpoint in zip(sides, (publish, subscribe), strict=True):
        if secret is None and not is_local(endpoint):
            raise _wrong(
                side,
                f"{endpoint} can be reached from elsewhere, and there are no keys. Make some with"
                " `penstock bus keys` and set bus.key_file, or use an address of this machine.",
            )
    if secret and broker and not (settings.clients and Path(settings.clients).is_dir()):
        raise _wrong("clients", "names no folder with the public keys of those who may subscribe.")
    if secret and broker and settings.publishers and not Path(settings.publishers).is_dir():
        raise _wrong("publishers", "names no folder with the public keys of those who may publish.")
    if secret and not broker:
        read_public(settings.broker_key, "bus.broker_key")
    return BusEndpoints(publish, subscribe, settings, folder, secret, settings.broker_key)


def _find(endpoint: str, folder: Path, side: Side) -> str:
    """Return the address of one side; ``ipc`` alone becomes a socket in the folder."""
    if endpoint == "ipc":
        return f"ipc://{folder.resolve() / 'bus' / side}.sock"
    transport, _, rest = endpoint.partition("://")
    port = rest.rpartition(":")[2]
    if transport == "ipc" and rest:
        return endpoint
    if transport == "tcp" and rest.rpartition(":")[0] and port.isdecimal() and int(port) < 65536:
        return endpoint
    raise _wrong(
        side,
        f"{endpoint!r} is no address: write ipc, ipc://FILE or tcp://HOST:PORT.",
    )


def is_local(endpoint: str) -> bool:
    """Whether only this machine can reach an endpoint."""
    if endpoint.startswith("ipc://"):
        return True
    host = endpoint.partition("://")[2].rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def find_log_id(folder: Path) -> int | None:
    """Return the unique id of this folder's log; None if no process has published from here."""
    try:
        written = (folder / _LOG_ID).read_text()
        # A truncated id would be a different id, perhaps that of another folder.
        return int(written, 16) & (1 << 63) - 1 if len(written.strip()) == _LOG_ID_DIGITS else None
    except (OSError, ValueError):
        return None


def log_id(folder: Path) -> int:
    """Return the same id; it is created on first use, and again if the file has no valid id.

    Raises:
        StorageError: the folder cannot be written.
    """
    file = folder / _LOG_ID
    try:
        found = find_log_id(folder)
        if found is None:
            make_folder(file.parent)
            with locked(file.parent):  # two processes that start at once get the same id
                found = find_log_id(folder)
                if found is None:
                    renew_log_id(folder)
                    found = find_log_id(folder)
    except OSError as error:
        raise StorageError(str(file), error.strerror or str(error)) from error
    if found is None:
        raise StorageError(str(file), "cannot be read", "Let this user read it.")
    return found


def renew_log_id(folder: Path) -> None:
    """Give a log that no process uses a new id.

    Raises:
        OSError: the folder cannot be written.
    """
    make_folder((folder / _LOG_ID).parent)
    replace_file(folder / _LOG_ID, secrets.token_hex(_LOG_ID_DIGITS // 2).encode())


def _wrong(field: str, problem: str) -> ConfigError:
    return ConfigError(f"bus.{field}", problem=problem, origin="settings")
