"""Endpoints: where the bus is found, and by which keys, checked before anything starts.

By default the bus is two sockets in the folder for collected data. Slots are numbered per folder,
so two folders on one machine are two buses; and whoever may not enter the folder cannot connect.
Off this machine nobody is spoken to without CURVE: a broker knows its clients by their keys, those
who publish and those who subscribe apart, and they know it by its own.
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
"""What encryption adds to a message, at most."""
_WORD_BYTES, _SECRET_WORD_BYTES = 224, 1024
"""No subscription, and nothing else that a subscriber says, is larger; the second if it has to
say first who it is. What is larger never gets as far as ZeroMQ's tree of subscriptions."""
_ARRIVED = 8
"""Messages of one connection that the broker holds unread; more wait in the kernel, and in the
queue of who sent them. They may be large, and there may be many connections."""
_BEAT_MS = 5000
"""A connection that is silent for so long is tested; after three times that it is given up."""


@dataclass(frozen=True)
class BusEndpoints:
    """Where the bus is, how much may wait on it, and who we are there."""

    publish: str
    """What publishers connect to, and the broker listens on."""
    subscribe: str
    settings: Bus
    folder: Path
    """The folder for collected data."""
    secret: Secret | None = None
    broker_key: str = ""

    @property
    def key_folders(self) -> dict[str, Path | None]:
        """Where the broker finds the keys of those who may, by what they may."""
        publishers, clients = self.settings.publishers, self.settings.clients
        return {
            "publish": Path(publishers) if publishers else None,
            "subscribe": Path(clients) if clients else None,
        }

    def bind(self, socket: Socket, side: Side) -> None:
        """Listen as the broker.

        Raises:
            ConfigError: another listens there, or nobody can.
        """
        endpoint: str = getattr(self, side)
        if self.secret is not None:
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, self.secret.reveal().encode())
            # Who is asked about a key is told by this on which side it came.
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
        """Speak to the broker, now or as soon as it is there."""
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
        # Whoever is not let in is not told so: it comes again once this has passed.
        socket.setsockopt(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
        if endpoint.startswith("tcp"):
            # A peer whose machine is gone says nothing; without this nobody would notice.
            socket.setsockopt(zmq.HEARTBEAT_IVL, _BEAT_MS)
            socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * _BEAT_MS)


def resolve_endpoints(settings: Bus, folder: Path, *, broker: bool = False) -> BusEndpoints | None:
    """The bus as settings have it; None if there is none.

    Raises:
        ConfigError: an address is none, or is not this machine's and lacks keys.
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
    """The address of one side, with ``ipc`` alone made into a socket in the folder."""
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
    """Whether only this machine can reach it."""
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
    """What tells this folder's log from all others; None if nobody ever published from here."""
    try:
        written = (folder / _LOG_ID).read_text()
        # The beginning of one would be another, and perhaps another folder's.
        return int(written, 16) & (1 << 63) - 1 if len(written.strip()) == _LOG_ID_DIGITS else None
    except (OSError, ValueError):
        return None


def log_id(folder: Path) -> int:
    """The same, given to the folder on first use, and anew if what is there cannot be read.

    Raises:
        StorageError: the folder cannot be written.
    """
    file = folder / _LOG_ID
    try:
        found = find_log_id(folder)
        if found is None:
            make_folder(file.parent)
            with locked(file.parent):  # two that begin at once shall have the same
                found = find_log_id(folder)
                if found is None:
                    replace_file(file, secrets.token_hex(_LOG_ID_DIGITS // 2).encode())
                    found = find_log_id(folder)
    except OSError as error:
        raise StorageError(str(file), error.strerror or str(error)) from error
    if found is None:
        raise StorageError(str(file), "cannot be read", "Let this user read it.")
    return found


def _wrong(field: str, problem: str) -> ConfigError:
    return ConfigError(f"bus.{field}", problem=problem, origin="settings")
