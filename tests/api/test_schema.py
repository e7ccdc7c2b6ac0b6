"""The API's description: it lists every route, its examples are true, and the API keeps to it."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest

from penstock.api import (
    breakers,
    connectors,
    coverage,
    data,
    fleet,
    health,
    jobs,
    live,
    locks,
    login,
    market,
    markets,
    monitoring,
    observing,
    ticks,
)
from penstock.api.document import document
from penstock.api.operations import OPERATIONS
from penstock.web.facts import RequestCrashed

from .conftest import Client

PREFIX = "/api/v1"


def test_every_route_is_described() -> None:
    assert [one.route for one in OPERATIONS] == [
        *connectors.ROUTES, *breakers.ROUTES, *jobs.ROUTES, *locks.ROUTES, *markets.ROUTES,
        *ticks.ROUTES, *data.ROUTES, *market.ROUTES, *monitoring.ROUTES,
        *fleet.ROUTES, *observing.ROUTES, *coverage.ROUTES,
        *login.ROUTES, *live.ROUTES,
        *health.ROUTES,
    ]  # fmt: skip
    described = document()["paths"]
    assert sum(len(methods) for methods in described.values()) == len(OPERATIONS)
    assert set(described[f"{PREFIX}/jobs/{{job_id}}"]) == {"get", "put", "delete"}


def test_every_operation_has_examples_that_are_true_to_the_schema() -> None:
    described = document()
    components = described["components"]
    checked = 0
    for methods in described["paths"].values():
        for operation in methods.values():
            contents = [answer.get("content", {}) for answer in operation["responses"].values()]
            contents.append(operation.get("requestBody", {}).get("content", {}))
            for content in contents:
                for body in content.values():
                    schema = {**body["schema"], "components": components}
                    shown = [one["value"] for one in body.get("examples", {}).values()]
                    shown += [body["example"]] if "example" in body else []
                    for example in shown:
                        jsonschema_rs.validate(schema, example)
                        checked += 1
            good = min(operation["responses"])
            assert good == "204" or operation["responses"][good]["content"], operation["summary"]
    assert checked > 90


async def test_the_description_is_served(api: Client) -> None:
    answer = await api.ask("GET", "openapi.json")

    assert answer.json == json.loads(json.dumps(document()))
    assert answer.json["openapi"] == "3.1.0"


# The phase "coverage" sends two thousand requests: every boundary of every parameter.
@pytest.mark.sample
@pytest.mark.parametrize(("phases", "least"), [("examples,fuzzing,stateful", 3), ("coverage", 50)])
async def test_a_fuzzer_finds_nothing_that_contradicts_the_description(
    api: Client, tmp_path: Path, phases: str, least: int
) -> None:
    program = Path(sys.executable).parent / "schemathesis"
    # Without a time budget, of which it would spend all.
    options = ["--max-examples", "3", "--seed", "1", "--request-timeout", "30"]
    fuzzer = await asyncio.create_subprocess_exec(
        program, "--config-file", str(Path(__file__).with_name("schemathesis.toml")), "run",
        f"{api.url}{PREFIX}/openapi.json", "--no-color", "--phases", phases, *options,
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    said = (await fuzzer.communicate())[0].decode()

    assert fuzzer.returncode == 0, said[-6000:]
    assert f"Tested: {len(OPERATIONS)}" in said
    assert not [fact for fact in api.facts if isinstance(fact, RequestCrashed)]
    assert len(api.facts) > least * len(OPERATIONS)
