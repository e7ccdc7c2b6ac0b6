"""Serves the console's files: the same document for every page, and what it loads.

The files contain no data, so they are served without a token; everything that they show comes from
the API. The headers permit the page to load and to connect to nothing but its own origin.
"""

import gzip
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

STATIC = Path(__file__).parent / "static"
ASSETS = "/assets/"
_PAGES = frozenset(
    {
        "",
        "market",
        "coverage",
        "jobs",
        "limits",
        "connections",
        "processes",
        "storage",
        "logs",
        "config",
        "login",
    }
)
_WITH_SUBJECT = frozenset({"market", "jobs"})
"""Pages of which there is one for each market or job, named by the rest of the path."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
# Names of files do not change with their content, so browsers have to ask whether it changed.
_CACHING: Mapping[str, str] = {"Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
_METHODS = ("GET", "HEAD")
_MEDIA_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_COMPRESSED = {".html", ".css", ".js", ".mjs", ".json", ".svg", ".txt"}
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
"""A folder or file below the static folder: none is hidden, and none leads out of it."""
_LEAST_COMPRESSED_BYTES = 1024


@dataclass(frozen=True)
class _File:
    """The content of a file, as it was at a time of modification."""

    modified_ns: int
    body: bytes
    compressed: bytes | None
    media_type: str
    digest: str

    def tag(self, *, compressed: bool) -> str:
        return f'"{self.digest}{"-gzip" if compressed else ""}"'


class ConsoleFiles:
    """An ASGI application: the pages and files of the console."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._read: dict[str, _File] = {}

    def has(self, path: str) -> bool:
        """Whether a path belongs to the console; all others are those of the API."""
        return is_console_path(path)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002
        path: str = scope["path"]
        if scope["method"] not in _METHODS:
            allowed = {"Allow": ", ".join(_METHODS)}
            await _refuse(send, 405, f"{path} can only be read.", allowed)
            return
        name = "index.html" if _is_page(path) else path.removeprefix(ASSETS)
        found = self._file(name)
        if found is None:
            await _refuse(send, 404, f"The console has no file {name!r}.", {})
            return
        asked = _lists_of(scope["headers"])
        compressed = found.compressed is not None and _takes_gzip(asked["accept-encoding"])
        tag = found.tag(compressed=compressed)
        headers = {**_HEADERS, **_CACHING, "ETag": tag, "Content-Type": found.media_type}
        if compressed:
            headers["Content-Encoding"] = "gzip"
        if {tag, "*"} & {each.removeprefix("W/") for each in asked["if-none-match"]}:
            await _answer(send, 304, headers, b"")
            return
        body = found.compressed if compressed and found.compressed is not None else found.body
        headers["Content-Length"] = str(len(body))
        await _answer(send, 200, headers, b"" if scope["method"] == "HEAD" else body)

    def _file(self, name: str) -> _File | None:
        """Return a file; it is read again only after it was modified."""
        path = self._folder / name
        if not all(map(_NAME.fullmatch, name.split("/"))) or path.suffix not in _MEDIA_TYPES:
            return None
        try:
            modified_ns = path.stat().st_mtime_ns
            known = self._read.get(name)
            if known is None or known.modified_ns != modified_ns:
                known = self._read[name] = _read(path, modified_ns)
        except OSError:
            self._read.pop(name, None)
            return None
        return known


def is_console_path(path: str) -> bool:
    """Whether a path is that of a page or of a file of the console."""
    return path.startswith(ASSETS) or _is_page(path)


def _read(path: Path, modified_ns: int) -> _File:
    body = path.read_bytes()
    compressed = None
    if path.suffix in _COMPRESSED and len(body) >= _LEAST_COMPRESSED_BYTES:
        compressed = gzip.compress(body, mtime=0)
    digest = sha256(body).hexdigest()[:32]
    return _File(modified_ns, body, compressed, _MEDIA_TYPES[path.suffix], digest)


def _is_page(path: str) -> bool:
    page, slash, subject = path.removeprefix("/").partition("/")
    if not path.startswith("/") or page not in _PAGES:
        return False
    return not slash or (bool(subject) and page in _WITH_SUBJECT)


def _lists_of(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """Return the headers that have a part in the answer, each as a list of its values."""
    found: dict[str, list[str]] = {"accept-encoding": [], "if-none-match": []}
    for key, value in raw:
        if (name := key.decode("latin-1").lower()) in found:
            found[name] += [each.strip() for each in value.decode("latin-1").split(",")]
    return found


def _takes_gzip(accepted: Iterable[str]) -> bool:
    for each in accepted:
        coding, _, weight = each.replace(" ", "").lower().partition(";q=")
        if coding == "gzip":
            return weight.strip("0.") != "" if weight else True
    return False


async def _refuse(send: Any, status: int, detail: str, headers: Mapping[str, str]) -> None:
    problem = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    media_type = {"Content-Type": "application/problem+json"}
    body = msgspec.json.encode(problem)
    await _answer(send, status, {**_HEADERS, **media_type, **headers}, body)


async def _answer(send: Any, status: int, headers: Mapping[str, str], body: bytes) -> None:
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body, "more_body": False})
