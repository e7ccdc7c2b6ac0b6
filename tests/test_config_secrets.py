"""Secrets among the settings: where they may come from, and that they are masked."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from penstock.config import (
    Loaded,
    Secret,
    Settings,
    environment_name,
    in_file_names,
    load,
    setting_names,
    short_names,
    unused_key,
)
from penstock.config.secret import is_secret, is_secret_name
from penstock.errors import ConfigError

IN_FILE = in_file_names(setting_names(Settings))
TABLES = [name for name in IN_FILE.values() if "dict" in str(setting_names(Settings)[name])]


def value_of(loaded: Loaded[Settings], name: str) -> Any:
    section, _, field = name.partition(".")
    return getattr(getattr(loaded.settings, section), field)


def secret_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "secret"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_every_secret_and_every_url_of_a_store_may_be_in_a_file() -> None:
    secrets = {name for name, hint in setting_names(Settings).items() if is_secret(hint)}

    assert secrets | {"state.url", "live.url", "storage.lake_options"} <= set(IN_FILE.values())


@pytest.mark.parametrize(("in_file", "name"), IN_FILE.items())
@pytest.mark.parametrize("by", ["environment", "settings file"])
def test_a_secret_is_read_from_the_file_that_is_named(
    tmp_path: Path, in_file: str, name: str, by: str
) -> None:
    place, wanted = str(secret_file(tmp_path, "hush, x=1\n")), "hush, x=1"
    section, _, field = in_file.partition(".")
    if by == "environment":
        variable = f"{environment_name(name)}_FILE"
        loaded = load(Settings, {variable: f"one={place}" if name in TABLES else place})
        assert loaded.origins == {name: f"environment {variable}"}
    else:
        file = tmp_path / "penstock.toml"
        value = f'{{one = "{place}"}}' if name in TABLES else f'"{place}"'
        file.write_text(f"[{section}]\n{field} = {value}\n")
        loaded = load(Settings, {}, file)
        assert loaded.origins == {name: f"{file}, as {in_file}"}

    found = value_of(loaded, name)
    found = found["one"] if name in TABLES else found
    assert (found.reveal() if isinstance(found, Secret) else found) == wanted
    assert loaded.warnings == ()


@pytest.mark.parametrize("name", [n for n, h in setting_names(Settings).items() if is_secret(h)])
def test_a_secret_in_the_settings_file_is_refused_with_what_to_do(
    tmp_path: Path, name: str
) -> None:
    section, _, field = name.partition(".")
    value = '{one = "hush"}' if name in TABLES else '"hush"'
    file = tmp_path / "penstock.toml"
    file.write_text(f"[{section}]\n{field} = {value}\n")

    with pytest.raises(ConfigError, match="not read from the settings file") as refused:
        load(Settings, {}, file)

    for part in (name, str(file), f"{environment_name(name)}_FILE"):
        assert part in str(refused.value)
    assert "hush" not in str(refused.value)


def test_credentials_of_an_object_store_are_refused_there_too_and_masked(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[storage.lake_options]\naws_region = "x"\naws_secret_access_key = "hush"\n')
    with pytest.raises(ConfigError, match=r"lake_options\.aws_secret_access_key") as refused:
        load(Settings, {}, file)
    assert "hush" not in str(refused.value)

    text = "aws_region=x,aws_access_key_id=me,aws_secret_access_key=hush"
    loaded = load(Settings, {"PENSTOCK_STORAGE_LAKE_OPTIONS": text})
    shown = {name: value for name, value, _ in loaded.rows()}["storage.lake_options"]
    assert shown == {"aws_region": "x", "aws_access_key_id": "me", "aws_secret_access_key": "***"}


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("aws_secret_access_key", True),
        ("AWS_SESSION_TOKEN", True),
        ("azure_storage_account_key", True),
        ("azure_storage_sas_key", True),
        ("google_service_account_key", True),
        ("aws_access_key_id", False),
        ("aws_endpoint_url", False),
        ("monkey_business", False),
    ],
)
def test_which_options_are_secret(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"PENSTOCK_API_TOKEN_FILE": "absent"}, ["api.token", "absent cannot be read"]),
        ({"PENSTOCK_API_TOKEN_FILE": "."}, ["api.token", "cannot be read: Is a directory"]),
        ({"PENSTOCK_API_TOKEN_FILE": "empty"}, ["api.token", "empty is empty"]),
        ({"PENSTOCK_API_TOKEN_FILE": "binary"}, ["api.token", "binary is not text"]),
        ({"PENSTOCK_API_TOKEN_FILE": "/dev/zero"}, ["api.token", "too long"]),
        (
            {"PENSTOCK_API_TOKEN_FILE": "empty", "PENSTOCK_API_TOKEN": "hush"},
            ["PENSTOCK_API_TOKEN", "PENSTOCK_API_TOKEN_FILE is set too"],
        ),
        ({"PENSTOCK_EXCHANGES_API_KEYS_FILE": "empty"}, ["exchanges.api_keys", "table of files"]),
        ({"PENSTOCK_API_TOKN_FILE": "x"}, ["PENSTOCK_API_TOKEN_FILE"]),
    ],
)
def test_what_is_wrong_with_a_secrets_file_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    says: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("\n")
    Path("binary").write_bytes(b"\xff\xfe")

    with pytest.raises(ConfigError) as refused:
        load(Settings, environment)

    for part in says:
        assert part in str(refused.value)
    assert "hush" not in str(refused.value)


def test_the_environment_overrides_a_file_that_is_not_even_read(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[api]\ntoken_file = "absent"\n')

    assert load(Settings, {"PENSTOCK_API_TOKEN": "x"}, file).settings.api.token.reveal() == "x"


def test_an_empty_variable_does_not_hide_the_file(tmp_path: Path) -> None:
    place = str(secret_file(tmp_path, "hush"))
    both = {"PENSTOCK_API_TOKEN_FILE": place, "PENSTOCK_API_TOKEN": ""}
    for environment in (both, dict(reversed(both.items()))):
        assert load(Settings, environment).settings.api.token.reveal() == "hush"
    assert load(Settings, {"PENSTOCK_API_TOKEN_FILE": ""}).settings == Settings()


@pytest.mark.parametrize(("mode", "warned"), [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_a_secret_that_every_user_may_read_is_warned_about(
    tmp_path: Path, mode: int, warned: int
) -> None:
    place = secret_file(tmp_path, "hush", mode)
    file = tmp_path / "penstock.toml"
    file.write_text('[state]\nurl = "postgresql://me:hush@db/x"\n')
    file.chmod(mode)

    loaded = load(Settings, {"PENSTOCK_API_TOKEN_FILE": str(place)}, file)

    assert len(loaded.warnings) == 2 * warned
    assert "hush" not in "".join(loaded.warnings)
    if warned:
        assert all("chmod o-r" in warning for warning in loaded.warnings)


def test_a_url_without_a_password_may_be_read_by_everybody(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[state]\nurl = "postgresql://db/x"\n')
    file.chmod(0o644)

    assert load(Settings, {}, file).warnings == ()


def test_short_names_have_an_api_key_if_requests_are_signed(tmp_path: Path) -> None:
    place = str(secret_file(tmp_path, "of the file"))
    environment = {"API_KEY": "a=b, c", "API_SECRET_FILE": place, "API_PASSPHRASE": "p"}

    found = load(
        Settings, environment, aliases=short_names("ccxt:x", signs=True)
    ).settings.exchanges
    unsigned = load(Settings, environment, aliases=short_names("kraken"))

    assert found.api_keys["ccxt:x"].reveal() == "a=b, c"
    assert found.api_secrets["ccxt:x"].reveal() == "of the file"
    assert found.api_passphrases["ccxt:x"].reveal() == "p"
    assert unsigned.settings == Settings()
    (warning,) = unused_key("kraken", environment)
    assert "API_KEY, API_SECRET_FILE, API_PASSPHRASE" in warning
    assert unused_key("kraken", {"API_KEY": ""}) == ()


def test_both_short_names_of_a_secret_are_one_too_many(tmp_path: Path) -> None:
    environment = {"API_KEY": "hush", "API_KEY_FILE": str(secret_file(tmp_path, "hush"))}
    with pytest.raises(ConfigError, match="API_KEY_FILE is set too"):
        load(Settings, environment, aliases=short_names("coinbase", signs=True))


printable_text = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=40)


@examples(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=printable_text)
def test_a_secret_survives_its_file_whatever_its_letters(tmp_path: Path, text: str) -> None:
    place = str(secret_file(tmp_path, f"{text}\n"))
    one = load(Settings, {"PENSTOCK_API_TOKEN_FILE": place}).settings.api.token
    table = load(Settings, {"PENSTOCK_EXCHANGES_API_KEYS_FILE": f"x={place}"}).settings

    assert one.reveal() == text == table.exchanges.api_keys["x"].reveal()
