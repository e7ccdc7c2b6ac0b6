"""``penstock config`` and ``penstock init``."""

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import invoke

from penstock.config import Settings, in_file_names, load, setting_names, table_of
from penstock.config.secret import is_secret
from penstock.config.template import template
from penstock.exchanges import registry


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def uncommented(text: str) -> str:
    return re.sub(r"(?m)^#(?! )", "", text)


def test_a_new_file_sets_nothing() -> None:
    Path("penstock.toml").write_text(template())

    assert load(Settings, {}, Path("penstock.toml")).settings == Settings()


def test_a_new_file_has_every_setting_with_its_default() -> None:
    text = uncommented(template())
    Path("penstock.toml").write_text(text)
    tables = tomllib.loads(text)
    names, in_file = setting_names(Settings), in_file_names(setting_names(Settings))

    loaded = load(Settings, {}, Path("penstock.toml"))

    defaults = {name: value for name, value, _ in load(Settings, {}).rows()}
    found = {name: value for name, value, _ in loaded.rows()}
    for name, hint in names.items():
        *sections, field = name.split(".")
        table = tables
        for section in sections:
            table = table[section]
        if is_secret(hint):
            assert in_file[f"{name}_file"] == name
            assert f"{field}_file" in table
        elif struct := table_of(hint):
            (described,) = table[field].values()
            fields = msgspec.structs.asdict(struct())
            assert set(described) == {name for name, value in fields.items() if value is not None}
        else:
            assert field in table, name
            assert found[name] == defaults[name]


def test_what_most_users_need_comes_first() -> None:
    text = template()
    assert text.index("\n#data_dir") < text.index("\n#url") < text.index("\n#token_file")
    assert text.index("\n#token_file") < text.index("[simulator]") < text.index("[breaker]")
    assert max(map(len, text.splitlines())) <= 100


def test_init_writes_a_file_and_leaves_one_that_exists() -> None:
    written = invoke("init")
    assert written.returncode == 0
    assert "penstock.toml is written" in written.stderr
    assert invoke("config", "check").stdout.startswith("penstock.toml is valid. It sets 0 of ")

    Path("penstock.toml").write_text("[collect]\n")
    refused = invoke("init")
    assert refused.returncode == 2
    assert "exists already" in refused.stderr
    assert Path("penstock.toml").read_text() == "[collect]\n"


def test_init_says_why_it_cannot_write() -> None:
    refused = invoke("init", "absent/penstock.toml")
    assert refused.returncode == 2
    assert "cannot be written: No such file or directory" in refused.stderr


def test_init_writes_to_stdout() -> None:
    assert invoke("init", "-").stdout == template()


def test_config_alone_shows_everything_as_before() -> None:
    shown = invoke("config").stdout
    assert len(shown.splitlines()) == len(setting_names(Settings)) + 1
    assert re.search(r"^ *simulator\.port +8790 +default *$", shown, re.MULTILINE)
    assert json.loads(invoke("config", "--json").stdout)["simulator.port"] == {
        "value": 8790,
        "origin": "default",
    }


def test_show_has_some_settings_their_values_and_their_origins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("penstock.toml").write_text('[api]\nhost = "0.0.0.0"\n')
    monkeypatch.setenv("PENSTOCK_API_PORT", "9")

    def rows(*words: str) -> list[list[str]]:
        return [line.split() for line in invoke("config", "show", *words).stdout.splitlines()[1:]]

    assert rows("api.host", "logging.level") == [["logging.level", "info"], ["api.host", "0.0.0.0"]]
    assert rows("api", "--changed", "--origin") == [
        ["api.host", "0.0.0.0", "penstock.toml"],
        ["api.port", "9", "environment", "PENSTOCK_API_PORT"],
    ]
    assert len(rows()) == len(setting_names(Settings))
    assert invoke("config", "show", "aip").returncode == 2


def test_show_has_the_settings_of_a_process_of_one_exchange(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("API_KEY", "hush")
    monkeypatch.setenv("API_BASE_URL", "http://127.0.0.1:1")
    signed = next(name for name in registry.names() if registry.load(name).keyed)

    shown = invoke("config", "show", "--changed", "--json", "--exchange", signed).stdout

    assert {name: row["origin"] for name, row in json.loads(shown).items()} == {
        "exchanges.rest_urls": "environment API_BASE_URL",
        "exchanges.api_keys": "environment API_KEY",
    }
    assert "hush" not in shown
    assert invoke("config", "show", "--changed", "--json").stdout == "{}\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[colect]\n", r"\[colect\] .*no such section. Did you mean collect\?"),
        ("[simulator.binanse]\nraw_limit = 3\n", r"Did you mean simulator\.binance"),
        ("data_dir = 'x'\n", r"data_dir .*Did you mean collect\.data_dir\?"),
        ("[api]\ntokn_file = 'x'\n", r"Did you mean api\.token_file"),
        ("collect = 5\n", r"collect .*is a section"),
        ("[connectors]\nsymbols = []\n", r"connectors\.symbols .*below \[connectors\.NAME\]"),
    ],
)
def test_check_names_the_mistake_in_a_file(text: str, says: str) -> None:
    Path("mine.toml").write_text(text)
    refused = invoke("config", "check", "mine.toml")
    assert refused.returncode == 2
    assert re.search(says, refused.stderr), refused.stderr


def test_check_names_a_webhook_that_is_no_address_without_showing_it() -> None:
    Path("hook").write_text("hooks.example/canary")
    Path("hook").chmod(0o600)
    Path("mine.toml").write_text('[alerts]\nwebhook_file = "hook"\n')

    refused = invoke("config", "check", "mine.toml")

    assert refused.returncode == 2
    assert "alerts.webhook" in refused.stderr
    assert "begins with https://" in refused.stderr
    assert "canary" not in refused.stderr


def test_brackets_in_a_value_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_COLLECT_DATA_DIR", "/data/[bold]x[/bold]")

    shown = invoke("config", "show", "collect.data_dir", "--origin")

    assert "/data/[bold]x[/bold]" in shown.stdout


def test_check_needs_a_file() -> None:
    assert invoke("config", "check").returncode == 2
    assert "cannot be read" in invoke("config", "check", "absent.toml").stderr


def test_everything_can_be_set_by_the_environment() -> None:
    plans = '{"binance": {"symbols": ["btc_usdt"], "backfill": "2024-01-01"}}'
    urls = '{"ccxt:x": "http://127.0.0.1/?a=1,2"}'
    environment = {
        "PENSTOCK_CONNECTORS": plans,
        "PENSTOCK_EXCHANGES_REST_URLS": urls,
        "PENSTOCK_API_HOSTS": "[::1],x",
    }
    found = load(Settings, environment).settings

    assert found.connectors["binance"].symbols == ("btc_usdt",)
    assert found.exchanges.rest_urls == {"ccxt:x": "http://127.0.0.1/?a=1,2"}
    assert found.api.hosts == ("[::1]", "x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("binance", "connectors .*is not JSON"),
        ('{"binance": {"symbls": []}}', r"connectors\.binance\.symbls .*Did you mean symbols"),
        ('{"binance": 1}', r"connectors\.binance .*is not a table"),
        ("[]", "connectors .*tables, one by name"),
    ],
)
def test_a_mistake_in_such_a_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    monkeypatch.setenv("PENSTOCK_CONNECTORS", text)
    refused = invoke("config", "show")
    assert refused.returncode == 2
    assert re.search(says, refused.stderr), refused.stderr
