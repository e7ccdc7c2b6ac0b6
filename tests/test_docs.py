"""Documentation that is true: every command, setting and layer is in it."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from penstock.api.document import document
from penstock.config import Settings, setting_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_made_pages_are_up_to_date() -> None:
    for page, text in script("make_docs").pages().items():
        assert page.read_text() == text, f"{page.name} is out of date: run make docs"


def test_every_setting_says_what_it_is() -> None:
    text = (DOCS / "settings.md").read_text()
    for name in setting_names(Settings):
        row = next(line for line in text.splitlines() if f"`{name.rpartition('.')[2]}`" in line)
        assert row.rstrip(" |").rpartition("|")[2].strip(), f"{name} has no explanation"


def test_every_command_ends_with_an_example() -> None:
    sections = (DOCS / "cli.md").read_text().split("\n## ")[1:]
    for section in sections:
        assert "\nExample: " in section, f"{section.splitlines()[0]} has no example"


@pytest.mark.parametrize(
    ("container", "lowest"), [("penstock", "errors"), ("penstock.simulator", "market")]
)
def test_the_drawn_layers_are_the_enforced_ones(container: str, lowest: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each.get("containers") == [container])
    text = (DOCS / "architecture.md").read_text()
    picture = next(block for block in text.split("```")[1::2] if block.endswith(f"\n{lowest}\n"))
    drawn = [re.split(r"\s{2,}", line)[0] for line in picture.strip().splitlines()]

    assert drawn == layers


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_has_a_prompt_is_run_by_the_tests(page: Path) -> None:
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
        prompts = re.search(r"^\$ ", block, re.M)
        assert (kind == "console") == bool(prompts), f"{page.name}: mark it console: {block}"


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    for page in PAGES:
        for named in re.findall(r"`make ([a-z-]+)|^make ([a-z-]+)", page.read_text(), re.M):
            assert {*named} - {""} <= targets, f"{page.name} names make {named}"


def test_the_site_is_complete_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = script("make_site")
    made = site.pages()

    assert list(site.problems(made)) == []

    site.build(tmp_path / "site")
    written = {page.relative_to(tmp_path / "site") for page in tmp_path.rglob("*.html")}
    assert {Path(page.address) for page in made.values()} == written
    for page in {*tmp_path.rglob("*.*")} - {*tmp_path.rglob("*.png")}:
        loaded = re.findall(r"(?:src|<link [^>]*href)=.?[\"']([^\"']+)", page.read_text())
        assert not [each for each in loaded if "//" in each], f"{page.name} loads {loaded}"
        assert "@import" not in page.read_text()
        assert "url(" not in page.read_text() or page.suffix != ".css"


def test_the_api_reference_has_every_operation() -> None:
    site = script("make_site")
    described = document()

    text = site.api_reference(described)

    for path, methods in described["paths"].items():
        for method in methods:
            assert f"## `{method.upper()} {path}`" in text


def test_a_link_to_a_missing_heading_is_found() -> None:
    site = script("make_site")
    texts = {
        "index.md": "# Home\n\n## Work\n\n[Jobs](jobs.md)"
        " [a](jobs.md#when-a-job-runs) [b](jobs.md#no)\n",
        "jobs.md": "# Jobs\n\n## When a job runs\n",
    }
    made = {name: site.Page(name, text, DOCS / name) for name, text in texts.items()}
    for page in made.values():
        site.render(page, {each.source.resolve(): name for name, each in made.items()})

    assert list(site.problems(made)) == [
        "index.md links to jobs.md#no, and there is no such heading"
    ]
