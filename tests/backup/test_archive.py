"""An archive is restored byte for byte, or refused as a whole, and nothing is left."""

import gzip
import io
import os
import random
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.backup.archives import (
    NAME,
    add_file,
    forged,
    manifest_of,
    sign,
    write_archive,
)

from penstock.backup.manifest import encode
from penstock.backup.model import ArchiveFormat, digest_name
from penstock.backup.reading import check_archive
from penstock.backup.restore import restore
from penstock.backup.tar import NotOurs, header, members
from penstock.errors import BadBackup, FolderNotEmpty, StorageError

FILES = {
    "log/collect-toy/CURRENT": b"MANIFEST-000001\n",
    "log/collect-toy/000001.sst": random.Random(1).randbytes(70_000),
    "log/collect-toy/000002.log": b"",
    "state.db": b"SQLite" * 5_000,
    "bus/log.id": b"00000000c0ffee00",
    "lake/trades/exchange=toy/date=2026-01-02/part-00000-0123-c000.zstd.parquet": b"PAR1",
}


def tree(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("format_", ["gz", "zst"])
def test_what_is_restored_is_what_was_archived(tmp_path: Path, format_: ArchiveFormat) -> None:
    archive = write_archive(tmp_path, FILES, format_)

    found = restore(archive, tmp_path / "restored")

    assert tree(tmp_path / "restored") == FILES
    assert found == manifest_of(FILES)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_other_tools_read_the_archive_and_its_digest(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, FILES)

    checked = subprocess.run(
        ["sha256sum", "-c", digest_name(archive.name)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    with tarfile.open(archive) as opened:
        names = opened.getnames()

    assert checked.stdout == f"{archive.name}: OK\n"
    assert names == [*FILES, "manifest.json"]


names = st.from_regex(
    r"(log|lake)/[a-z0-9=_]{1,20}/[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,60}", fullmatch=True
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(files=st.dictionaries(names, st.binary(max_size=2_000), max_size=5))
def test_any_files_are_restored(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("any")

    restore(write_archive(folder, files), folder / "restored")

    assert tree(folder / "restored") == files


def test_a_size_beyond_eight_gigabytes_is_written_and_read() -> None:
    size = 9 << 30
    block = header("log/a/b", size, 1)
    found, theirs = next(members(io.BytesIO(block))), tarfile.TarInfo.frombuf(block, "ascii", "")

    assert (found.name, found.size) == (theirs.name, theirs.size) == ("log/a/b", size)


@pytest.mark.parametrize("format_", ["gz", "zst"])
def test_every_flipped_byte_is_noticed(tmp_path: Path, format_: ArchiveFormat) -> None:
    archive = write_archive(tmp_path, {"log/a/b": b"abc" * 300, "log/a/c": os.urandom(50)}, format_)
    good = archive.read_bytes()
    for position in range(0, len(good), max(1, len(good) // 150)):
        for signed in (False, True):  # also by someone who can write the digest
            archive.write_bytes(
                good[:position] + bytes([good[position] ^ 0x10]) + good[position + 1 :]
            )
            if signed:
                sign(archive)
            try:
                found = check_archive(archive)
            except BadBackup:
                continue
            # Bytes of gzip's header, such as its time, do not matter to the content.
            assert signed, f"byte {position} was flipped"
            assert len(found.files) == 2


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, FILES)
    good = archive.read_bytes()
    for size in [*range(0, len(good), 512), len(good) - 1]:
        archive.write_bytes(good[:size])
        sign(archive)
        with pytest.raises(BadBackup):
            restore(archive, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


def test_a_missing_or_foreign_digest_is_noticed(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, FILES)
    sidecar = tmp_path / digest_name(archive.name)
    sidecar.write_text(sidecar.read_text().replace(archive.name, "storage-other.tar.gz"))
    with pytest.raises(BadBackup, match="digest"):
        check_archive(archive)
    sidecar.unlink()
    with pytest.raises(BadBackup, match="missing"):
        check_archive(archive)


def test_a_mount_point_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_archive(tmp_path, FILES)
    (tmp_path / "mounted").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path / "mounted")

    with pytest.raises(StorageError, match="is a mount point"):
        restore(archive, tmp_path / "mounted")

    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_nothing_is_restored_into_a_folder_that_is_in_use(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, FILES)
    target = tmp_path / "data"
    target.mkdir()
    (target / "state.db").write_bytes(b"precious")

    with pytest.raises(FolderNotEmpty, match="rename it"):
        restore(archive, target)

    assert tree(target) == {"state.db": b"precious"}
    (target / "state.db").unlink()
    restore(archive, target)
    assert tree(target) == FILES


def test_nothing_is_restored_through_a_link(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, FILES)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StorageError, match="not a folder"):
        restore(archive, tmp_path / "link")

    assert tree(tmp_path / "elsewhere") == {}


def test_what_a_killed_restore_left_is_removed(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, FILES)
    left = tmp_path / ".restoring-data-1"
    (left / "log").mkdir(parents=True)

    restore(archive, tmp_path / "data")

    assert not left.exists()


def _special(kind: bytes, **fields: object) -> Callable[[tarfile.TarFile], None]:
    return lambda archive: add_file(archive, "log/a/evil", b"", type=kind, **fields)


EVIL: dict[str, Callable[[tarfile.TarFile], None]] = {
    "absolute": lambda a: add_file(a, "/log/a/evil", b"x"),
    "parent": lambda a: add_file(a, "log/../../evil", b"x"),
    "dot": lambda a: add_file(a, "log/./evil", b"x"),
    "empty part": lambda a: add_file(a, "log//evil", b"x"),
    "hidden": lambda a: add_file(a, "log/a/.evil", b"x"),
    "other part": lambda a: add_file(a, "penstock.toml", b"x"),
    "keys": lambda a: add_file(a, "bus/broker.key", b"x"),
    "not ascii": lambda a: add_file(a, "log/a/\u00e9vil", b"x"),
    "backslash": lambda a: add_file(a, "log\\..\\evil", b"x"),
    "newline": lambda a: add_file(a, "log/a/evil\n", b"x"),
    "unlisted": lambda a: add_file(a, "log/a/more", b"x"),
    "duplicate": lambda a: add_file(a, "state.db", b"x"),
    "same again": lambda a: add_file(a, "state.db", FILES["state.db"]),
    "file as folder": lambda a: add_file(a, "state.db/evil", b"x"),
    "early manifest": lambda a: add_file(a, "manifest.json", encode(manifest_of(FILES))),
    "symbolic link": _special(tarfile.SYMTYPE, linkname="../../evil"),
    "hard link": _special(tarfile.LNKTYPE, linkname="state.db"),
    "folder": _special(tarfile.DIRTYPE),
    "fifo": _special(tarfile.FIFOTYPE),
    "device": _special(tarfile.CHRTYPE, devmajor=1, devminor=3),
    "contiguous": _special(tarfile.CONTTYPE),
    "sparse": _special(tarfile.GNUTYPE_SPARSE),
    "old regular": _special(tarfile.AREGTYPE),
    "long name": lambda a: add_file(a, "log/a/" + "e" * 300, b"x"),
    "extended header": lambda a: add_file(a, "log/a/e", b"x", pax_headers={"path": "../evil"}),
    "link name of a file": lambda a: add_file(a, "log/a/e", b"x", linkname="/etc/passwd"),
}


SPECIAL = ("symbolic link", "hard link", "fifo", "device", "contiguous", "sparse", "old regular")
LISTED = {what: {"log/a/evil": b""} for what in SPECIAL}


@pytest.mark.parametrize("what", EVIL)
def test_a_malicious_archive_is_refused_whole(tmp_path: Path, what: str) -> None:
    (tmp_path / "backups").mkdir()
    # Also if the manifest has it as an empty file.
    archive = forged(tmp_path / "backups", FILES, EVIL[what], {**FILES, **LISTED.get(what, {})})
    before = tree(tmp_path)

    with pytest.raises(BadBackup):
        check_archive(archive)
    with pytest.raises(BadBackup):
        restore(archive, tmp_path / "data" / "restored")

    assert tree(tmp_path) == before
    assert not (tmp_path / "data").exists()


def test_the_same_archive_without_evil_is_accepted(tmp_path: Path) -> None:
    archive = forged(tmp_path, FILES, lambda _: None)

    restore(archive, tmp_path / "restored")

    assert tree(tmp_path / "restored") == FILES


@pytest.mark.parametrize(
    "change",
    [
        (b" 4,", b" 5,"),
        (b'"version": 1', b'"version": 2'),
        (b'"kind"', b'"sort"'),
        (b"lake/trades", b"../../trades"),
        (b"log/collect-toy/CURRENT", b"log/collect-toy/CURRENU"),
        (b'"files": [', b'"files": [["log/x/y",1,""],'),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(
    tmp_path: Path, change: tuple[bytes, bytes]
) -> None:
    text = encode(manifest_of(FILES))
    changed = text.replace(*change)
    assert changed != text
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, data in FILES.items():
            add_file(archive, path, data)
        add_file(archive, "manifest.json", changed)
    content = buffer.getvalue().rstrip(b"\0")
    target = tmp_path / NAME
    target.write_bytes(gzip.compress(content + bytes(-len(content) % 512 + 1024)))

    with pytest.raises(BadBackup):
        check_archive(sign(target))
    with pytest.raises(BadBackup):
        restore(target, tmp_path / "restored")

    assert not (tmp_path / "restored").exists()


def test_a_bomb_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(header("log/a/bomb", 1 << 40, 1))
        for _ in range(300):
            file.write(bytes(1 << 20))
    sign(path)
    tracemalloc.start()
    try:
        with pytest.raises(BadBackup, match="far more"):
            restore(path, tmp_path / "restored")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 20 << 20
    assert not (tmp_path / "restored").exists()


@given(junk=st.binary(max_size=3_000))
def test_no_bytes_but_an_archive_are_accepted(junk: bytes) -> None:
    with pytest.raises(NotOurs):
        list(members(io.BytesIO(junk)))
