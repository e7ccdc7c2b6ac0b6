"""The API's description (OpenAPI 3.1), generated from the Structs that requests are decoded into.

So it is as strict as the decoding: bounds, patterns, and no additional fields. The framework's own
generator supports neither, so it is not used.
"""

import inspect
import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from penstock import __version__
from penstock.api import examples
from penstock.api.app_state import PREFIX
from penstock.api.operations import OPERATIONS, Operation
from penstock.api.problems import MEDIA_TYPE, Problem
from penstock.api.sessions import cookie_name
from penstock.config import Api
from penstock.exchanges import registry
from penstock.ingest.registry import kinds as job_kinds
from penstock.jobs.kinds import forms

Schema = dict[str, Any]

_JSON = "application/json"
_PATH_PARAMETERS: dict[str, Schema] = {
    "exchange_id": {"type": "string", "pattern": "^[a-z0-9_]+(:[a-z0-9_]+)?$"},
    "job_id": {"type": "string", "pattern": "^[0-9a-z]+$"},
    "symbol": {"type": "string", "pattern": "^[A-Za-z0-9]+[/_-][A-Za-z0-9]+$"},
}
_TEXT: Schema = {"type": "string"}
_HEADERS: dict[str, Schema] = {
    "ETag": {"description": "The document's version.", "schema": _TEXT},
    "Location": {"description": "The path of the new document.", "schema": _TEXT},
    "Link": {"description": 'The next page, as rel="next".', "schema": _TEXT},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
}


def document() -> Schema:
    """Return the whole description."""
    exchanges = registry.names()
    kinds = [kind for one in OPERATIONS for kind in (one.query, one.body, one.answers) if kind]
    cursors = list(
        {form: None for kind in job_kinds().values() for form in forms(kind.cursor_type)}
    )
    references, components = msgspec.json.schema_components(
        [*cursors, *kinds, Problem], ref_template="#/components/schemas/{name}"
    )
    for name, other in (("NewJob", "null"), ("EditedJob", None), ("JobView", "object")):
        any_of = [*references[: len(cursors)], *([{"type": other}] if other else [])]
        components[name]["properties"]["cursor"]["anyOf"] = any_of
    for name in ("NewConnector", "NewJob"):
        components[name]["properties"]["exchange_id"]["anyOf"] = _named(exchanges)
    pages = _Writer(components, examples.answers(exchanges[0]), examples.bodies(exchanges[0]))
    paths: Schema = {}
    for operation in OPERATIONS:
        paths.setdefault(path_of(operation), {})[operation.method] = pages.operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "penstock",
            "version": __version__,
            "summary": "Connectors and jobs of a fleet that collects market data, and the data.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "api.token"},
                "readToken": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "api.read_token: GET only",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": cookie_name(f"localhost:{Api().port}"),
                    "description": "Set by login; the number is the port of the request's Host"
                    " header. Changes need X-Penstock-Console: 1 as well.",
                },
            },
        },
    }


def _named(exchanges: list[str]) -> list[Schema]:
    """Return the schemas of exchange names: one of these, or a member of a family."""
    families = [
        {"pattern": f"^{name}{registry.SEPARATOR}[a-z0-9]+$"} for name in registry.families()
    ]
    return [{"enum": exchanges}, *families]


def path_of(operation: Operation) -> str:
    """Return an operation's path as in the description, without the types of parameters."""
    (path,) = operation.route.paths
    return (PREFIX if operation.of_api else "") + re.sub(r":(str|path)}", "}", path)


@dataclass(frozen=True)
class _Writer:
    """Describes operations, with shared components and examples."""

    components: Schema
    answers: Schema
    bodies: dict[str, Schema]

    def operation(self, one: Operation) -> Schema:
        reads = one.method == "get"
        refused = (401, 503) if reads else (401, 403, 503)
        refusals = (*one.refusals, *(refused if one.needs_token else ()))
        # The token is optional: the server may have none.
        readers: list[Schema] = [{"readToken": []}] if reads else []
        tokens: list[Schema] = [{"token": []}, *readers, {"session": []}, {}]
        written: Schema = {
            "operationId": one.id,
            "summary": inspect.getdoc(one.route.fn),
            "tags": [one.tag],
            "parameters": [*self._path_parameters(one), *self._query(one), *_preconditions(one)],
            "responses": {
                **{str(status): self._answer(one, status) for status in one.status},
                **{str(status): _refusal(status) for status in sorted(refusals)},
                "default": _refusal(None),
            },
            "security": tokens if one.needs_token else [],
        }
        if one.body is not None:
            shown = {name: {"value": body} for name, body in self.bodies[one.id].items()}
            content = {_JSON: {"schema": _reference(one.body), "examples": shown}}
            written["requestBody"] = {"required": True, "content": content}
        return written

    def _path_parameters(self, one: Operation) -> list[Schema]:
        job = self.answers["showJob"]
        return [
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": _PATH_PARAMETERS[name],
                "example": job.get(name, job["id"]),
            }
            for name in re.findall(r"{(\w+)}", path_of(one))
        ]

    def _query(self, one: Operation) -> list[Schema]:
        fields = self.components[one.query.__name__]["properties"] if one.query else {}
        return [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]

    def _answer(self, one: Operation, status: int) -> Schema:
        written: Schema = {"description": HTTPStatus(status).phrase}
        headers = {*one.headers, *({"Location"} if status == 201 else ())}
        if headers:
            written["headers"] = {name: _HEADERS[name] for name in sorted(headers)}
        if one.answers is not None and status < 300:
            example = self.answers[one.id]
            schema = _reference(one.answers)
            written["content"] = {one.media_type: {"schema": schema, "example": example}}
            for media_type in one.also:
                written["content"][media_type] = {"schema": _TEXT}
            if one.streams:
                written["content"]["text/event-stream"] = {"schema": _TEXT}
        return written


def _preconditions(one: Operation) -> list[Schema]:
    header: Schema = {"in": "header", "schema": _TEXT, "example": '"3"'}
    found: list[Schema] = []
    if one.if_match is not None:
        found.append({**header, "name": "If-Match", "required": one.if_match})
    if 304 in one.status:
        found.append({**header, "name": "If-None-Match"})
    return found


def _refusal(status: int | None) -> Schema:
    content: Schema = {"schema": _reference(Problem)}
    written: Schema = {"description": "Any other error", "content": {MEDIA_TYPE: content}}
    if status is not None:
        written["description"] = HTTPStatus(status).phrase
        content["example"] = msgspec.to_builtins(examples.problem(status))
    if status == 503:
        written["headers"] = {"Retry-After": _HEADERS["Retry-After"]}
    return written


def _reference(kind: Any) -> Schema:
    if isinstance(kind, type) and issubclass(kind, Struct):
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    (schema,), _ = msgspec.json.schema_components(
        [kind], ref_template="#/components/schemas/{name}"
    )
    return schema
