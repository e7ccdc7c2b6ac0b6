"""Strict decoding of queries, bodies and preconditions; errors name the invalid field.

Bodies are not coerced: a number in quotation marks is text. Queries contain only text, so there
text is converted to numbers. Unknown parameters are rejected; otherwise a misspelt filter would
silently have no effect.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import Annotated, TypeVar
from zlib import crc32

import msgspec
from msgspec import Meta, Struct

from penstock.api.problems import AnyRequest, ProblemError, bad_field
from penstock.errors import near_matches

S = TypeVar("S", bound=Struct)

Word = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Limit = Annotated[int, Meta(ge=1, le=1000, description="Maximum items per page.")]
After = Annotated[str, Meta(min_length=1, description="`next` of the previous page.")]

_JSON = "application/json"
_WHERE = re.compile(r"^(.*?)(?: - at `(?:key in )?\$\.?(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)
_ETAG = re.compile(r'\s*(?:W/)?"([^"]*)"\s*(?:,|$)')


def _number(text: str) -> int | float:
    # In JSON 60000.0 equals the integer 60000, and some clients send it in this form.
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


_decoder = msgspec.json.Decoder(float_hook=_number)


async def body_of(request: AnyRequest, kind: type[S]) -> S:
    """Decode the request's body.

    Raises:
        ProblemError: it is not a valid ``kind``.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != _JSON:
        raise ProblemError(415, f"The Content-Type must be {_JSON}, not {content_type!r}.")
    try:
        decoded = _decoder.decode(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(400, f"The body is not valid JSON: {error}.") from None
    try:
        return msgspec.convert(decoded, kind)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), kind) from None


def query_of(request: AnyRequest, kind: type[S]) -> S:
    """Decode the request's query string.

    Raises:
        ProblemError: a parameter is unknown, repeated or not allowed.
    """
    return converted(request.query_params.multi_items(), kind)


def converted(parameters: Iterable[tuple[str, str]], kind: type[S]) -> S:
    """Decode the parameters of a query.

    Raises:
        ProblemError: one is unknown, repeated or not allowed.
    """
    asked: dict[str, str] = {}
    for name, value in parameters:
        if name in asked:
            raise bad_field(name, "is given more than once")
        asked[name] = value
    try:
        return msgspec.convert(asked, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), kind) from None


def _invalid(message: str, kind: type[Struct]) -> ProblemError:
    match = _WHERE.match(message)
    assert match is not None
    problem, field = match[1], match[2] or "body"
    unknown = _UNKNOWN.search(problem)
    if unknown is None:
        return bad_field(field, problem)
    near = near_matches(unknown[1], kind.__struct_fields__) if field == "body" else []
    return bad_field(unknown[1], "there is no such field", near=tuple(near))


def etag(version: int, body: bytes) -> str:
    """Return the ETag of a document: its version, and a checksum of its present content.

    A connector shows the usage of its limits, which changes without a new version.
    """
    return f'"{version}-{crc32(body):08x}"'


def is_among(tag: str, header: str) -> bool:
    """Whether If-None-Match names this ETag."""
    return header.strip() == "*" or tag.strip('"') in _ETAG.findall(header)


def names_version(header: str, version: int) -> bool:
    """Whether If-Match names an ETag of this version, or the version alone."""
    named = {tag.partition("-")[0] for tag in _ETAG.findall(header)}
    return header.strip() == "*" or str(version) in named


def page_token(id_: str) -> str:
    """Return the opaque token for the end of a page; the client sends it back as ``after``."""
    return urlsafe_b64encode(id_.encode()).decode().rstrip("=")


def page_start(token: str | None) -> str | None:
    """Return the id at which a page ended.

    Raises:
        ProblemError: the token is not one of ``page_token``.
    """
    if token is None:
        return None
    try:
        id_ = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    except ValueError:
        id_ = ""
    if not id_ or page_token(id_) != token or "\0" in id_:
        raise bad_field("after", "is not a `next` that a page returned")
    return id_
