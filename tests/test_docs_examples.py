"""The examples of the docs run as printed, page by page."""

import shutil
from pathlib import Path

import pytest
from tests.examples import ROOT, commands, run

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="the examples use curl")

PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if commands(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_of_the_docs_runs_as_printed(page: Path, tmp_path: Path) -> None:
    assert run(page, tmp_path)
