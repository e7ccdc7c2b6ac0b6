"""Configuration: three sources, one frozen result, every origin known."""

import logging
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from penstock.config import (
    RENAMED,
    Loaded,
    Secret,
    Settings,
    environment_name,
    load,
    named_symbols,
    setting_names,
    short_names,
    warn_once,
)
from penstock.errors import ConfigError


def settings(**sources: Any) -> Loaded[Settings]:
    return load(Settings, sources.pop("environment", {}), **sources)


def write(folder: Path, text: str) -> Path:
    file = folder / "penstock.toml"
    file.write_text(text)
    return file


def test_without_any_source_the_defaults_stand() -> None:
    assert settings().settings == Settings()


def test_the_command_line_beats_the_environment_beats_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[simulator]\nport = 1\nseed = 1\nhost = 'h'\n")
    loaded = settings(
        environment={"PENSTOCK_SIMULATOR_PORT": "2", "PENSTOCK_SIMULATOR_SEED": "2"},
        file=file,
        options={"simulator.port": 3},
    )

    simulator = loaded.settings.simulator
    assert (simulator.port, simulator.seed, simulator.host) == (3, 2, "h")
    assert loaded.origins == {
        "simulator.port": "command line --port",
        "simulator.seed": "environment PENSTOCK_SIMULATOR_SEED",
        "simulator.host": str(file),
    }


def test_a_list_may_be_names_separated_by_commas() -> None:
    loaded = settings(environment={"PENSTOCK_SIMULATOR_SYMBOLS": "btc_usdt, eth_usdt"})

    assert loaded.settings.simulator.symbols == ("btc_usdt", "eth_usdt")


def test_a_table_may_be_pairs_separated_by_commas(tmp_path: Path) -> None:
    urls = {"one": "http://127.0.0.1:1/?a=b", "two": "http://127.0.0.1:2"}
    variable = ", ".join(f"{name}={url}" for name, url in urls.items())
    file = write(tmp_path, f"[exchanges.rest_urls]\none = '{urls['one']}'\ntwo = '{urls['two']}'\n")

    for sources in (
        {"environment": {"PENSTOCK_EXCHANGES_REST_URLS": variable}},
        {"file": file},
    ):
        assert settings(**sources).settings.exchanges.rest_urls == urls


def test_every_setting_has_a_row_with_its_origin() -> None:
    rows = {name: (value, origin) for name, value, origin in settings().rows()}

    assert rows.keys() == setting_names(Settings).keys()
    assert rows["simulator.port"] == (8790, "default")


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"PENSTOCK_SIMULATOR_PORT": "70000"}, ["simulator.port", "70000", "≤ 65535"]),
        ({"PENSTOCK_SIMULATOR_PORT": "many"}, ["simulator.port", "'many'", "whole number"]),
        ({"PENSTOCK_SIMULATOR_PROT": "1"}, ["PENSTOCK_SIMULATOR_PROT", "PENSTOCK_SIMULATOR_PORT"]),
        ({"PENSTOCK_LOGGING_FORMAT": "xml"}, ["logging.format", "'xml'", "auto, human, json"]),
        ({"PENSTOCK_EXCHANGES_REST_URLS": "http://x"}, ["exchanges.rest_urls", "name=value pairs"]),
        ({"PENSTOCK_SIMULATOR_FIRST_BAN": "0"}, ["simulator.first_ban", "'0'", "> 0"]),
        ({"PENSTOCK_SIMULATOR_BINANCE_RAW_LIMIT": "0"}, ["simulator.binance.raw_limit", "≥ 1"]),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_what_is_allowed_and_where_it_came_from(
    environment: dict[str, str], says: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(environment=environment)
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[simulator]\nprot = 1\n", "Did you mean simulator.port"),
        ("[simulator]\nport = '1'\n", "simulator.port"),
        ("port 1", "is not TOML"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=says) as caught:
        settings(file=file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        settings(file=tmp_path / "absent.toml")


def test_variables_of_the_tests_are_left_alone() -> None:
    assert settings(environment={"PENSTOCK_TEST_REDIS_URL": "x"}).settings == Settings()


class Account(Struct, frozen=True, kw_only=True):
    """A section with something to hide."""

    key: Secret = Secret("")


class Guarded(Struct, frozen=True, kw_only=True):
    """Settings with a secret, as an exchange account would have."""

    account: Account = Account()


def test_a_secret_never_shows_itself() -> None:
    loaded = load(Guarded, {environment_name("account.key"): "hunter2"})
    key = loaded.settings.account.key

    assert key.reveal() == "hunter2"
    texts = (repr(loaded), str(key), f"{key}", f"{key:>20}", f"{key!r:>20}")
    for shown in (*texts, str(list(loaded.rows()))):
        assert "hunter2" not in shown
        assert "***" in shown
    # As JSON even a text that masks itself is its letters.
    assert b"hunter2" not in msgspec.json.encode(list(loaded.rows()))


def test_a_secret_does_not_show_in_an_error(tmp_path: Path) -> None:
    file = write(tmp_path, "[account]\nkey = 12345678\n")
    with pytest.raises(ConfigError) as caught:
        load(Guarded, {}, file=file)
    assert "12345678" not in str(caught.value)


def test_tables_that_an_operator_names_are_read(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[connectors.here]\nsymbols = ["btc_usdt"]\ntimeframes = ["1h"]\nbackfill = 2024-01-01\n'
        '[connectors.there]\nbackfill = "2024-02-01"\nlimits = [{amount = 5, period_ms = 1000}]\n'
    )

    plans = load(Settings, {}, file).settings.connectors

    assert plans["here"].backfill == date(2024, 1, 1)
    assert plans["there"].backfill == date(2024, 2, 1)
    assert plans["there"].limits[0].amount == 5


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("symbls = []", "connectors.here.symbls .* Did you mean symbols"),
        ('symbols = "btc_usdt"', "connectors.here.symbols .* Expected `array`"),
        ('backfill = "soon"', "connectors.here.backfill .* true or false or a day"),
        ("interval = 0", "connectors.here.interval .* ≥ 1"),
        ("limits = [{amount = 0, period_ms = 1}]", "connectors.here.limits .*amount"),
        ("limits = [{amout = 1, period_ms = 1}]", "connectors.here.limits .*amout"),
    ],
)
def test_what_is_wrong_in_such_a_table_is_named(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f"[connectors.here]\n{line}\n")

    with pytest.raises(ConfigError, match=says):
        load(Settings, {}, file)


def test_short_names_set_what_a_process_of_one_exchange_needs() -> None:
    loaded = settings(
        environment={
            "STORAGE_BASE_DIR": "/data",
            "RATE_LIMIT_MAX_REQUESTS": "1200",
            "RATE_LIMIT_WINDOW_MS": "30000",
            "API_BASE_URL": "http://127.0.0.1:1/a=b",
            "WSS_BASE_URL": "ws://127.0.0.1:2",
        },
        aliases=short_names("kraken"),
    )

    found = loaded.settings
    assert found.collect.data_dir == "/data"
    assert (found.fetch.max_requests, found.fetch.window) == (1200, 30.0)
    assert found.exchanges.rest_urls == {"kraken": "http://127.0.0.1:1/a=b"}
    assert found.exchanges.stream_urls == {"kraken": "ws://127.0.0.1:2"}
    assert loaded.origins["fetch.window"] == "environment RATE_LIMIT_WINDOW_MS"


def test_a_short_name_is_weaker_than_the_full_one_and_stronger_than_the_file(
    tmp_path: Path,
) -> None:
    file = write(tmp_path, "[collect]\ndata_dir = 'file'\n[fetch]\nmax_requests = 1\n")
    loaded = settings(
        environment={
            "PENSTOCK_COLLECT_DATA_DIR": "full",
            "STORAGE_BASE_DIR": "short",
            "RATE_LIMIT_MAX_REQUESTS": "2",
        },
        file=file,
        aliases=short_names(),
    )

    assert loaded.settings.collect.data_dir == "full"
    assert loaded.settings.fetch.max_requests == 2


def test_a_short_name_that_is_set_to_nothing_is_not_set() -> None:
    empty = dict.fromkeys((alias.variable for alias in short_names("kraken")), "")

    assert settings(environment=empty, aliases=short_names("kraken")).settings == Settings()


@pytest.mark.parametrize("text", ["soon", "0", "-5", "nan"])
def test_a_bad_value_is_told_under_its_short_name(text: str) -> None:
    with pytest.raises(ConfigError, match="RATE_LIMIT_WINDOW_MS"):
        settings(environment={"RATE_LIMIT_WINDOW_MS": text}, aliases=short_names())


def test_markets_may_be_named_by_the_environment() -> None:
    assert named_symbols({"SYMBOLS": "btc_usdt, eth_usdt,sol_usdt"}) == (
        "btc_usdt",
        "eth_usdt",
        "sol_usdt",
    )
    assert named_symbols({}) == ()


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_renamed_setting_still_works_under_its_old_name(
    tmp_path: Path, old: str, new: str
) -> None:
    section, _, field = old.partition(".")
    is_flag = setting_names(Settings)[new] is bool
    file = write(tmp_path, f"[{section}]\n{field} = {'false' if is_flag else '7'}\n")
    variable = environment_name(old)
    wanted = False if is_flag else 7

    for sources, origin in (
        ({"file": file}, str(file)),
        ({"environment": {variable: str(wanted).lower()}}, f"environment {variable}"),
    ):
        loaded = settings(**sources)

        assert {name: value for name, value, _ in loaded.rows()}[new] == wanted
        assert loaded.origins == {new: f"{origin}, as {old}"}
        (warning,) = loaded.warnings
        assert warning.startswith(f"{old} ({origin}) is now {new}.")


@pytest.mark.parametrize("old_is_stronger", [True, False])
def test_where_both_names_are_set_the_new_one_wins_and_the_warning_says_so(
    tmp_path: Path, old_is_stronger: bool
) -> None:
    in_file, in_environment = (
        ("timeout", "patience") if old_is_stronger else ("patience", "timeout")
    )
    file = write(tmp_path, f"[state]\n{in_file} = {1 if old_is_stronger else 2}\n")
    variable = environment_name(f"state.{in_environment}")
    loaded = settings(
        environment={variable: "2" if old_is_stronger else "1"}, file=file, options={}
    )

    assert loaded.settings.state.timeout == 1
    (warning,) = loaded.warnings
    assert "state.patience" in warning
    assert "state.timeout, which is set too" in warning
    assert "state.patience is ignored" in warning


def test_the_environment_is_stronger_than_the_file_under_old_names_too(tmp_path: Path) -> None:
    file = write(tmp_path, "[jobs]\nturn = 1\n")
    loaded = settings(environment={"PENSTOCK_JOBS_TURN": "2"}, file=file)

    assert loaded.settings.jobs.time_slice == 2
    assert len(loaded.warnings) == 1


def test_a_bad_value_under_an_old_name_names_both(tmp_path: Path) -> None:
    file = write(tmp_path, "[jobs]\npatience = 0\n")
    with pytest.raises(ConfigError, match=r"jobs\.acquire_timeout .*as jobs\.patience"):
        settings(file=file)


def test_a_typing_error_is_never_answered_with_an_old_name() -> None:
    with pytest.raises(ConfigError) as caught:
        settings(environment={"PENSTOCK_JOBS_PATIENC": "1"})
    assert "JOBS_PATIENCE" not in str(caught.value)


def test_new_names_are_real_and_old_ones_are_gone() -> None:
    assert RENAMED.keys().isdisjoint(setting_names(Settings))
    assert set(RENAMED.values()) <= setting_names(Settings).keys()


def test_a_warning_about_an_old_name_is_logged_once_in_a_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "penstock")
    warnings = settings(environment={"PENSTOCK_COLLECT_WATCH": "false"}).warnings

    warn_once(warnings)
    warn_once(settings(environment={"PENSTOCK_COLLECT_WATCH": "false"}).warnings)

    said = [record for record in caplog.records if "collect.liveness" in record.message]
    assert [(record.levelname, record.message) for record in said] == [("WARNING", warnings[0])]
