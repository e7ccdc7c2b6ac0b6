"""A folder of backups on a remote, as rclone reaches it.

A backup is complete there once its digest file is: that is uploaded last. Files that rclone has not
finished have other names or do not appear, and are no backups.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.backup.model import digest_name, read_digest, time_of
from penstock.backup.rclone import NOT_FOUND, Rclone, RcloneFailed
from penstock.errors import ConfigError, RemoteError

T = TypeVar("T")

HASHES = ("sha256", "sha1", "md5")
"""Digests that a remote may know of its files without a download, best first."""
# rclone reads a file to hash it on some remotes; none is as slow as this.
_HASHED_PER_S = 1_000_000
_PARTIAL = re.compile(r"storage-\d{4}-[^/]+\.tar\.(gz|zst)(\.sha256)?\.[0-9A-Za-z]+\.partial")


class RemoteFile(msgspec.Struct, frozen=True):
    """A file in the remote folder."""

    name: str = msgspec.field(name="Name")
    size: int = msgspec.field(name="Size")
    modified: datetime = msgspec.field(name="ModTime")

    @property
    def is_partial(self) -> bool:
        """Whether rclone began to write it for us, and did not finish."""
        return _PARTIAL.fullmatch(self.name) is not None


class _Features(msgspec.Struct):
    hashes: list[str] | None = msgspec.field(name="Hashes", default=None)


@dataclass(frozen=True)
class Listing:
    """What a remote folder holds."""

    files: dict[str, RemoteFile]

    def backups(self) -> dict[str, int]:
        """The sizes of complete backups by name."""
        return {
            name: file.size
            for name, file in self.files.items()
            if time_of(name) is not None and digest_name(name) in self.files
        }


class RemoteFolder:
    """One folder on a remote."""

    def __init__(self, rclone: Rclone, remote: str) -> None:
        self._rclone, self.remote = rclone, remote
        self.hash_kind: str | None = None
        """The digest that the remote knows of its files; None if it knows none."""

    async def open(self) -> None:
        """Check that rclone runs and knows the remote.

        Raises:
            RcloneMissing: rclone cannot be used.
            RemoteError: it does not know the remote.
        """
        await self._rclone.check_version()
        # Of the whole remote, since rclone looks whether a path is a file, and misreads a refusal.
        name, colon, _ = self.remote[1:].partition(":")
        whole = self.remote if self.remote.startswith("/") else f"{self.remote[0]}{name}{colon}"
        answer = await self._rclone.run("backend features", "--", whole)
        known = self._decoded(answer, _Features).hashes or []
        self.hash_kind = next((kind for kind in HASHES if kind in known), None)

    async def list(self) -> Listing:
        """List the folder; one that does not exist yet is empty.

        Raises:
            RemoteError: it cannot be listed.
        """
        try:
            answer = await self._rclone.run(
                "lsjson",
                "--files-only",
                "--no-mimetype",
                "--low-level-retries=3",
                "--",
                self.remote,
            )
        except RcloneFailed as error:
            if error.code != NOT_FOUND:
                raise
            answer = b"[]"
        files = self._decoded(answer, list[RemoteFile])
        return Listing({file.name: file for file in files})

    async def digest(self, name: str) -> str | None:
        """Return the digest in a backup's digest file; None if that is invalid.

        Raises:
            RemoteError: it cannot be read.
        """
        answer = await self.read(digest_name(name), 4096)
        return read_digest(answer.decode(errors="replace"), name)

    async def read(self, name: str, most: int) -> bytes:
        """Return the first bytes of a file.

        Raises:
            RemoteError: it cannot be read.
        """
        return await self._rclone.run("cat", f"--count={most}", "--", self._path(name))

    async def hash(self, kind: str, name: str, size: int, *, download: bool = False) -> str:
        """Return a digest of a file's bytes; "" if the remote does not know it.

        Raises:
            RemoteError: it cannot be read.
        """
        how = ("--download",) if download else ()
        path = self._path(name)
        longest_s = 60 + size / _HASHED_PER_S
        answer = await self._rclone.run("hashsum", kind, *how, "--", path, longest_s=longest_s)
        words = answer.split()
        return words[0].decode(errors="replace").lower() if len(words) == 2 else ""

    async def upload(self, source: Path, name: str) -> None:
        """Write a file, replacing an existing one.

        Raises:
            RemoteError: it was not written.
        """
        # A damaged copy may have the size and the time of the right one.
        await self._rclone.run("copyto", "--ignore-times", "--", str(source), self._path(name))

    async def download(self, name: str, target: Path) -> None:
        """Read a file into a new one; none is created if the remote does not have it.

        Raises:
            RemoteError: it was not read.
        """
        await self._rclone.run("copyto", "--ignore-times", "--", self._path(name), str(target))

    async def delete(self, name: str) -> None:
        """Delete a file; one that does not exist is deleted already.

        Raises:
            RemoteError: it was not deleted.
        """
        try:
            await self._rclone.run("deletefile", "--retries=1", "--", self._path(name))
        except RcloneFailed:
            if name in (await self.list()).files:
                raise

    async def set_aside(self, name: str) -> None:
        """Rename a damaged archive, so that it is no backup any more.

        Raises:
            RemoteError: it was not renamed.
        """
        source = self._path(name)
        await self._rclone.run("moveto", "--ignore-times", "--", source, f"{source}.damaged")

    def _path(self, name: str) -> str:
        return f"{self.remote}{'' if self.remote.endswith((':', '/')) else '/'}{name}"

    def _decoded(self, answer: bytes, wanted: type[T]) -> T:
        try:
            return msgspec.json.decode(answer, type=wanted)
        except msgspec.DecodeError as error:
            raise RemoteError(self.remote, f"rclone's answer cannot be read ({error})") from error


def check_remote(remote: str, folder: Path) -> str:
    """Return the remote as rclone is given it.

    Raises:
        ConfigError: it is no remote, has secrets in it, or is the folder of the backups itself.
    """
    problem = ""
    if not remote:
        problem = "is empty: set it to a remote of rclone and a folder, such as s3:bucket/penstock."
    elif remote.startswith("-"):
        problem = "begins with '-', as an option of rclone does. Name a remote: NAME:FOLDER."
    elif not remote.isprintable() or remote != remote.strip():
        problem = "has spaces around it, or characters that cannot be printed."
    elif remote.startswith("/"):
        mine, theirs = folder.resolve(), Path(remote).resolve()
        if mine == theirs or mine in theirs.parents or theirs in mine.parents:
            problem = f"{remote!r} overlaps the folder of the backups itself, {mine}."
    elif ":" not in remote:
        problem = f"{remote!r} is neither NAME:FOLDER nor the path of a folder from '/'."
    elif "," in remote.removeprefix(":").partition(":")[0]:
        # Its parameters may be secrets, and every user of the machine sees a program's arguments.
        problem = (
            "has parameters of a remote in it. Put them into rclone's configuration file, or into"
            " its variables (RCLONE_CONFIG_NAME_…), and name the remote: NAME:FOLDER."
        )
    if problem:
        raise ConfigError("backup.remote", problem=problem, origin="settings")
    return remote
