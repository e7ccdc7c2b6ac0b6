"""The files in deploy/: what they name exists here, and the linters of their formats accept them.

Nothing is started: there is no container engine and no service manager to do so.
"""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from penstock.cli import app
from penstock.config import Settings, environment_name, in_file_names, load, setting_names

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SYSTEMD = DEPLOY / "systemd"
COMMON = SYSTEMD / "penstock-.service.d" / "common.conf"
UNITS = sorted(SYSTEMD.glob("*.service"))
COMPOSE = DEPLOY / "compose" / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes" / "penstock.yaml"
HARDENED = {
    "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
    "PrivateDevices": "yes", "ProtectKernelTunables": "yes", "ProtectKernelModules": "yes",
    "ProtectControlGroups": "yes", "RestrictSUIDSGID": "yes", "RestrictNamespaces": "yes",
    "MemoryDenyWriteExecute": "yes", "LockPersonality": "yes", "CapabilityBoundingSet": "",
    "User": "penstock",
}  # fmt: skip


def linter(name: str) -> str:
    folder = ROOT / ".venvs" / "deploy-linters"
    if not (folder / ".ready").exists():
        missing = f"there is no {folder.relative_to(ROOT)}; `make test` builds it"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return str(folder / "bin" / name)


def lint(*words: str | Path, **environment: str) -> None:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True, text=True, env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class Unit(dict[str, list[tuple[str, str]]]):
    """Section → (key, value) of a unit; a key may occur several times."""

    def __init__(self, *files: Path) -> None:
        for file in files:
            section = ""
            for line in file.read_text().splitlines():
                if line.startswith("["):
                    section = line.strip("[]")
                elif line and not line.startswith("#"):
                    key, _, value = line.partition("=")
                    self.setdefault(section, []).append((key, value))

    def last(self, section: str, key: str) -> str | None:
        return next((v for k, v in reversed(self.get(section, [])) if k == key), None)


def unit(file: Path) -> Unit:
    return Unit(file) if file.name == "penstock.service" else Unit(file, COMMON)


def commands() -> dict[str, Any]:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return dict(root.commands)


def arguments_are_known(words: list[str]) -> None:
    """The arguments of the program are those of one of its commands."""
    if words[:1] == ["--config"]:
        words = words[2:]
    command = commands()[words[0]]
    options = {option for parameter in command.params for option in parameter.opts}
    for word in words[1:]:
        assert not word.startswith("-") or word in options, f"{words[0]} has no {word}"


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_a_unit_is_hardened_notifies_and_runs_a_command(file: Path) -> None:
    found = unit(file)

    for key, value in HARDENED.items():
        assert found.last("Service", key) == value, key
    assert found.last("Service", "Type") == "notify"
    assert found.last("Service", "WatchdogSec")
    assert found.last("Service", "RestartPreventExitStatus") == "2"
    assert found.last("Install", "WantedBy")
    program, *words = shlex.split(found.last("Service", "ExecStart") or "")
    assert program == "/opt/penstock/bin/penstock"
    arguments_are_known(words)


def test_all_units_have_the_same_restrictions() -> None:
    alone = (SYSTEMD / "penstock.service").read_text()
    shared = COMMON.read_text()
    begin = "Environment=PENSTOCK_COLLECT_DATA_DIR"

    assert alone[alone.index(begin) : alone.index("\n[Install]")].strip() == (
        shared[shared.index(begin) :].strip()
    )


def test_every_process_that_the_supervisor_runs_has_a_unit() -> None:
    kinds = {"bus", "collect", "fetch", "tickers", "work", "keep", "serve"}

    assert {file.name.removeprefix("penstock-").split("@")[0].removesuffix(".service")
            for file in UNITS} == {*kinds, "penstock"}  # fmt: skip


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    shutil.copytree(SYSTEMD, tmp_path, dirs_exist_ok=True)
    for file in tmp_path.glob("*.service"):
        # It looks for the program, which is not installed here.
        file.write_text(file.read_text().replace("/opt/penstock/bin/penstock", "/bin/true"))
    files = [*tmp_path.glob("*.service"), *tmp_path.glob("*.target")]

    lint("systemd-analyze", "verify", *files, SYSTEMD_UNIT_PATH=f"{tmp_path}:")
    for file in files:
        if file.suffix == ".service":
            # On a scale from 0, well protected, to 10; times ten.
            lint("systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager",
                 file, SYSTEMD_UNIT_PATH=f"{tmp_path}:")  # fmt: skip


def variables(text: str) -> Iterator[str]:
    yield from re.findall(r"\bPENSTOCK_[A-Z0-9_]+", re.sub(r"such as PENSTOCK_\w+", "", text))


@pytest.mark.parametrize(
    "file",
    sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".json"),
    ids=lambda file: str(file.relative_to(DEPLOY)),
)
def test_every_variable_is_one_of_a_setting(file: Path) -> None:
    names = setting_names(Settings)
    known = set(map(environment_name, (*names, *in_file_names(names))))

    assert set(variables(file.read_text())) <= known


def dockerfile() -> list[tuple[str, str]]:
    text = (DEPLOY / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_image_is_built_in_stages_and_runs_without_privileges() -> None:
    steps = dockerfile()
    last = [at for at, (word, _) in enumerate(steps) if word == "FROM"][-1]
    stage = dict(steps[last:])

    assert last > 0
    assert stage["USER"] == "10001:10001"
    assert stage["ENTRYPOINT"] == '["penstock"]'
    arguments_are_known(yaml.safe_load(stage["CMD"]))
    for word, rest in steps:
        if word == "FROM":
            assert re.search(r":\d", rest), f"{rest} has no version"
        if word == "COPY" and "--from" not in rest:
            *sources, _ = rest.split()
            assert all((ROOT / source).exists() for source in sources), rest


def test_only_what_the_image_is_built_from_is_sent_to_the_builder() -> None:
    ignored = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    copied = {
        source
        for word, rest in dockerfile()
        if word == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }

    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == copied


def test_hadolint_accepts_the_dockerfile() -> None:
    lint(linter("hadolint"), "--failure-threshold", "info", DEPLOY / "docker" / "Dockerfile")


def test_the_services_of_compose_have_what_they_name() -> None:
    file = yaml.safe_load(COMPOSE.read_text())
    services = file["services"]

    assert services.keys() == {"penstock", "postgres", "redis", "prometheus", "grafana"}
    for name, service in services.items():
        assert "no-new-privileges:true" in service["security_opt"], name
        assert "build" in service or re.search(r":v?\d", service["image"]), (
            f"{name}: which version?"
        )
        assert set(service.get("secrets", ())) <= file["secrets"].keys(), name
        assert set(service["networks"]) <= file["networks"].keys(), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (COMPOSE.parent / source).exists(), f"{source} does not exist"
            else:
                assert source in file["volumes"], f"{source} is no volume"
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), f"{name} is open to others"
        for variable, value in service.get("environment", {}).items():
            secret = re.search(r"PASSWORD|TOKEN|SECRET|_URL", variable)
            assert not secret or value.startswith("/run/secrets/"), f"{variable} is in the file"
    assert services["penstock"]["read_only"]
    assert services["penstock"]["cap_drop"] == ["ALL"]
    arguments_are_known(services["penstock"]["command"])


def test_compose_accepts_its_file() -> None:
    lint(linter("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_secrets_are_made_once_and_nobody_else_reads_them(tmp_path: Path) -> None:
    script = shutil.copy(DEPLOY / "compose" / "make-secrets", tmp_path)
    folder = tmp_path / "secrets"

    lint(script)
    first = {file.name: file.read_text() for file in folder.iterdir()}
    lint(script)

    wanted = yaml.safe_load(COMPOSE.read_text())["secrets"]
    assert {file.name: file.read_text() for file in folder.iterdir()} == first
    assert {Path(each["file"]).name for each in wanted.values()} <= first.keys()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(set(first.values())) == len(first)
    assert first["postgres-password"].strip() in first["state-url"]
    environment = {
        f"{environment_name(name)}_FILE": str(folder / file)
        for name, file in (("state.url", "state-url"), ("live.url", "live-url"))
    }
    found = load(Settings, {**environment, "PENSTOCK_API_TOKEN_FILE": str(folder / "api-token")})
    assert len(found.settings.api.token.reveal()) == 64


def kubernetes() -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all(KUBERNETES.read_text())}


def test_the_pod_runs_without_privileges_and_has_what_it_names(tmp_path: Path) -> None:
    found = kubernetes()
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    allowed = container["securityContext"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert str(pod["securityContext"]["runAsUser"]) in dict(dockerfile())["USER"]
    assert allowed["readOnlyRootFilesystem"]
    assert not allowed["allowPrivilegeEscalation"]
    assert allowed["capabilities"] == {"drop": ["ALL"]}
    # The variables of a service named penstock would be taken for settings.
    assert pod["enableServiceLinks"] is False
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["exec"]["command"] == ["penstock", "status", "--alive"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    claimed = {
        each["metadata"]["name"] for each in found["StatefulSet"]["spec"]["volumeClaimTemplates"]
    }
    volumes = {each["name"] for each in pod["volumes"]} | claimed
    assert {each["name"] for each in container["volumeMounts"]} == volumes
    arguments_are_known(container["args"])

    file = tmp_path / "penstock.toml"
    text = found["ConfigMap"]["data"]["penstock.toml"]
    file.write_text(text.replace("/run/secrets/penstock", str(tmp_path)))
    for name in ("api-token", "state-url", "live-url"):
        assert f"/{name}" in text
        (tmp_path / name).write_text("postgresql://x:y@z/w")
        (tmp_path / name).chmod(0o440)
    loaded = load(Settings, {}, file)
    assert loaded.settings.up.exchanges
    assert loaded.warnings == ()


def test_kubernetes_accepts_its_file() -> None:
    lint(linter("kubernetes-validate"), "--strict", KUBERNETES)


def test_the_paths_in_the_docs_exist() -> None:
    text = (ROOT / "docs" / "deploy.md").read_text()
    named = set(re.findall(r"\bdeploy/[A-Za-z0-9_./@-]*[A-Za-z0-9]", text))

    assert named
    for name in named:
        assert (ROOT / name).exists(), f"{name} does not exist"
