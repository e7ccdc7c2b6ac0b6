"""CURVE keys of the bus, and the folders of public keys that the broker accepts.

A secret key is in a file that only its owner can read, and is never shown. Public keys are copied
freely: the broker's to its clients, theirs into the broker's folders, one for clients that may
publish and one for clients that may subscribe. A copied key is valid from the next connection on.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import zmq
from zmq.utils import z85

from penstock.clock import Clock
from penstock.config import Secret
from penstock.errors import ConfigError, StorageError
from penstock.files import create_file, make_folder
from penstock.publish.readiness import Socket

PUBLIC, SECRET = ".public", ".secret"
_KEY_CHARACTERS = 40
_ZAP = "inproc://zeromq.zap.01"
_READ_AGAIN_NS = 1_000_000_000


class KeyFiles(NamedTuple):
    """A key pair on disk."""

    secret: Path
    public: Path
    public_key: str


def make_keys(folder: Path, name: str) -> KeyFiles:
    """Create a key pair in two files; existing files are not overwritten.

    Raises:
        StorageError: the files exist already, or cannot be created.
    """
    secret, public = folder / f"{name}{SECRET}", folder / f"{name}{PUBLIC}"
    public_key, secret_key = zmq.curve_keypair()
    try:
        make_folder(folder)
        create_file(secret, secret_key + b"\n", 0o600)
        create_file(public, public_key + b"\n", 0o644)
    except OSError as error:
        remedy = "Choose another name or folder. No key was overwritten."
        raise StorageError(error.filename or str(folder), str(error.strerror), remedy) from error
    return KeyFiles(secret, public, public_key.decode())


def read_secret(path: Path) -> Secret:
    """Return the secret key in a file.

    Raises:
        ConfigError: the file cannot be read, has no valid key, or other users can read it.
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
    """Return a key after checking its encoding.

    Raises:
        ConfigError: it is not a valid key.
    """
    try:
        if len(key) == _KEY_CHARACTERS:
            zmq.curve_public(key.encode())
            return key
    except (zmq.ZMQError, ValueError):
        pass
    problem = f"holds no key of {_KEY_CHARACTERS} characters. Make one with: penstock bus keys"
    raise _wrong(setting, problem)


class AccessGuard:
    """Decides whether a key may connect (ZAP, RFC 27).

    Each side of the bus is a domain with its own folder: a client that may subscribe may not
    publish, unless its key is in both. The folders are read at most once a second, on request.
    """

    def __init__(
        self, context: "zmq.Context[Socket]", folders: Mapping[str, Path | None], clock: Clock
    ) -> None:
        self._folders, self._clock = folders, clock
        self._keys: dict[str, set[bytes]] = {}
        self._read_ns = 0
        self.refused = 0
        self.why = ""
        """Why the last connection was refused."""
        self.socket = context.socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.bind(_ZAP)

    def answer(self) -> bool:
        """Answer the next request, if any; return whether there was one."""
        try:
            version, request, domain, _, _, mechanism, *credentials = self.socket.recv_multipart(
                zmq.NOBLOCK
            )
        except zmq.Again:
            return False
        key = z85.encode(credentials[0]) if mechanism == b"CURVE" and credentials else b""
        self._read_folders()
        side = domain.decode(errors="replace")
        known = bool(key) and key in self._keys.get(side, ())
        if not known:
            self.refused += 1
            self.why = self._why_not(key, side)
        # 300 is temporary. After a 400 a client never reconnects, though its key may be added.
        status, text = (b"200", b"OK") if known else (b"300", b"key not known")
        self.socket.send_multipart([version, request, status, text, b"", b""])
        return True

    def _why_not(self, key: bytes, side: str) -> str:
        """Return the reason, for the broker's operator; a public key is no secret."""
        name = f"the key {key.decode()}" if key else "one without a key"
        setting = {"publish": "bus.publishers", "subscribe": "bus.clients"}.get(side, side)
        if elsewhere := [other for other, keys in self._keys.items() if key in keys]:
            return f"{name} may {elsewhere[0]} only: to let it {side} too, copy it to {setting}"
        return f"{name} may not {side}: to let it, copy it to {setting}"

    def _read_folders(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if not self._keys or now_ns - self._read_ns >= _READ_AGAIN_NS:
            self._read_ns = now_ns
            self._keys = {side: _public_keys(folder) for side, folder in self._folders.items()}


def _public_keys(folder: Path | None) -> set[bytes]:
    """Return the keys in a folder; entries that are not readable files are skipped."""
    keys: set[bytes] = set()
    for path in sorted(folder.glob(f"*{PUBLIC}")) if folder is not None else ():
        with suppress(OSError):
            if path.is_file():
                with path.open("rb") as file:
                    keys.add(file.read(1000).strip())
    return keys - {b""}


def _wrong(name: str, problem: str) -> ConfigError:
    return ConfigError(name, problem=problem, origin="settings")
