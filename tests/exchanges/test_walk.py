"""The walk through adding an exchange, held against what there is to add."""

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from penstock.books.rules import BookRules
from penstock.exchanges import registry
from penstock.exchanges.base import Exchange
from penstock.streaming.dialect import Dialect

ROOT = Path(__file__).parents[2]
WALK = (ROOT / "docs" / "add-an-exchange.md").read_text()
CLIENT = WALK.split("## The simulated exchange", maxsplit=1)[0]


def test_everything_that_is_data_about_an_exchange_is_explained() -> None:
    explained = set(re.findall(r"`([a-z_0-9.]+)`", CLIENT))
    optional = {each.name for each in fields(Exchange) if each.default is not MISSING}

    assert len(optional) >= 5
    assert optional <= explained
    assert {f"dialect.{name}" for name in ("books", "limits")} <= explained
    assert {"books", "limits"} <= set(Dialect.__annotations__)


def test_every_word_for_how_a_book_begins_is_explained() -> None:
    for word in ("rest", "stream", "frame"):
        assert f"(`{word}`)" in CLIENT
        assert BookRules(begins=word).begins == word


@pytest.mark.parametrize("name", registry.names())
def test_a_folder_holds_the_files_the_walk_names(name: str) -> None:
    table = CLIENT.split("| file |")[1].split("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+\.py)`", table))
    folder = ROOT / "src" / "penstock" / "exchanges" / name
    assert named - {"payloads.py"} <= {path.name for path in folder.iterdir()}


def test_the_walk_ends_with_the_contract() -> None:
    assert "tests/exchanges/test_contract.py" in CLIENT
    assert (ROOT / "tests" / "exchanges" / "test_contract.py").exists()
