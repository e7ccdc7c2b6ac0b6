"""Keys: who may speak on the bus. CURVE, with a list of clients that is a folder.

A secret key stays in a file that only its owner reads and is never shown. Public keys are shown
and copied freely: the broker's to its clients, theirs into the broker's folder, where they count
from the next connection on.
"""

import os
from pathlib import Path
from typing import NamedTuple

import zmq
from zmq.utils import z85

from penstock.config import Secret
from penstock.errors import ConfigError, StorageError
from penstock.publish.readiness import Socket

PUBLIC, SECRET = ".public", ".secret"
_KEY_CHARACTERS = 40
_ZAP = "inproc://zeromq.zap.01"


class KeyFiles(NamedTuple):
    """A key pair on disk."""

    secret: Path
    public: Path
    public_key: str


def make_keys(folder: Path, name: str) -> KeyFiles:
    """Make a key pair in two files; none that is there is overwritten.

    Raises:
        StorageError: there are such files already, or none can be made.
    """
    secret, public = folder / f"{name}{SECRET}", folder / f"{name}{PUBLIC}"
    public_key, secret_key = zmq.curve_keypair()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(secret, secret_key, 0o600)
        _write(public, public_key, 0o644)
    except OSError as error:
        remedy = "Choose another name or folder. No key was overwritten."
        raise StorageError(error.filename or str(folder), str(error.strerror), remedy) from error
    return KeyFiles(secret, public, public_key.decode())


def _write(path: Path, key: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(key + b"\n")


def read_secret(path: Path) -> Secret:
    """The secret key in a file.

    Raises:
        ConfigError: it cannot be read, is none, or others may read it too.
    """
    try:
        with path.open() as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(1000).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong("bus.key_file", f"{path} cannot be read: {error}.") from error
    if mode & 0o077:
        raise _wrong("bus.key_file", f"others can read {path}. Run: chmod 600 {path}")
    read_public(key, "bus.key_file")
    return Secret(key)


def read_public(key: str, setting: str) -> str:
    """A key as it should be spelled.

    Raises:
        ConfigError: it is none.
    """
    try:
        if len(key) == _KEY_CHARACTERS:
            zmq.curve_public(key.encode())
            return key
    except (zmq.ZMQError, ValueError):
        pass
    problem = f"holds no key of {_KEY_CHARACTERS} characters. Make one with: penstock bus keys"
    raise _wrong(setting, problem)


class Doorkeeper:
    """Answers whether a key may come in (ZAP, RFC 27). Reads the folder at every knock."""

    def __init__(self, context: "zmq.Context[Socket]", clients: Path) -> None:
        self._clients = clients
        self.refused = 0
        self.socket = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(_ZAP)

    def answer(self) -> bool:
        """Answer whoever knocks; whether somebody did."""
        try:
            version, request, _, _, _, mechanism, *credentials = self.socket.recv_multipart(
                zmq.NOBLOCK
            )
        except zmq.Again:
            return False
        known = mechanism == b"CURVE" and z85.encode(credentials[0]) in self._keys()
        self.refused += not known
        # "For now": a client that is told 400 never comes again, though its key may be added.
        status, text = (b"200", b"OK") if known else (b"300", b"key not known")
        self.socket.send_multipart([version, request, status, text, b"", b""])
        return True

    def _keys(self) -> set[bytes]:
        try:
            return {file.read_bytes().strip() for file in self._clients.glob(f"*{PUBLIC}")}
        except OSError:
            return set()


def _wrong(name: str, problem: str) -> ConfigError:
    return ConfigError(name, problem=problem, origin="settings")
