"""Archives for tests: good ones, and ones made to do harm."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.backup.archive import ArchiveWriter, Source
from penstock.backup.manifest import File, Manifest, encode
from penstock.backup.model import ArchiveFormat, digest_line, digest_name

NAME = "storage-2026-01-02T03-04-05-006.tar.gz"


def manifest_of(files: Mapping[str, bytes]) -> Manifest:
    return Manifest(
        penstock="0",
        started_at="2026-01-02T03:04:05Z",
        taken_at="2026-01-02T03:04:05Z",
        log_id="c0ffee",
        parts={},
        slots=[],
        files=[File(p, len(d), hashlib.sha256(d).hexdigest()) for p, d in files.items()],
    )


def write_archive(folder: Path, files: Mapping[str, bytes], format_: ArchiveFormat = "gz") -> Path:
    """An archive of files with these contents, as penstock writes it."""
    sources = folder / "sources"
    sources.mkdir()
    writer = ArchiveWriter(folder, NAME.replace(".gz", f".{format_}"), format_)
    listed: list[File] = []
    for number, (path, data) in enumerate(files.items()):
        file = sources / str(number)
        file.write_bytes(data)
        listed += writer.add([Source(path, file)])
    assert listed == manifest_of(files).files
    return writer.finish(encode(manifest_of(files)), 1).path


def sign(path: Path) -> Path:
    """Write the digest of an archive as it is now."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(digest_name(path.name)).write_text(digest_line(digest, path.name))
    return path


def forged(
    folder: Path,
    files: Mapping[str, bytes],
    add: Callable[[tarfile.TarFile], None],
    listed: Mapping[str, bytes] | None = None,
) -> Path:
    """An archive made with another program: good files, something more, and a manifest."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, data in files.items():
            add_file(archive, path, data)
        add(archive)
        add_file(archive, "manifest.json", encode(manifest_of(listed or files)))
    target = folder / NAME
    # Without the zeros to which tarfile extends an archive.
    content = buffer.getvalue().rstrip(b"\0")
    target.write_bytes(gzip.compress(content + bytes(-len(content) % 512 + 1024)))
    return sign(target)


def add_file(archive: tarfile.TarFile, path: str, data: bytes, **fields: object) -> None:
    info = tarfile.TarInfo(path)
    info.size = len(data)
    for name, value in fields.items():
        setattr(info, name, value)
    archive.addfile(info, io.BytesIO(data))
