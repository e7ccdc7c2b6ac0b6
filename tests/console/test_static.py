"""The console's page: its modules fit together, show data as text only, and ask no one else."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "penstock" / "console" / "static"
OWN = sorted(path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts)
MODULES = [path for path in OWN if path.suffix == ".js"]
PAGES = sorted((STATIC / "pages").glob("*.js"))
JS_TESTS = sorted(Path(__file__).parent.glob("js/*.test.mjs"))

MOST_BYTES = 400_000
TYPESCRIPT = "typescript@5.9.3"
KEPT = ROOT / ".pytest_cache" / TYPESCRIPT
"""The compiler, and what it found the last time."""
VENDOR_BYTES = {
    "lightweight-charts.standalone.production.mjs": 197_827,
    "uPlot.iife.min.js": 51_081,
    "uPlot.min.css": 1_857,
}
OUTSIDE = {"https://www.tradingview.com/", "http://www.w3.org/2000/svg"}
"""The link that lightweight-charts asks for, and a name that is never fetched."""


class _Page(HTMLParser):
    """Collects what index.html has: ids, references to ids, files, and what is forbidden."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.refers: set[str] = set()
        self.files: list[str] = []
        self.forbidden: list[str] = []
        self.feed((STATIC / "index.html").read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.append(given["id"])
        for name in ("for", "aria-labelledby", "aria-describedby", "aria-controls"):
            self.refers.update(given.get(name, "").split())
        for name in ("href", "src"):
            value = given.get(name, "")
            if value.startswith("#"):
                self.refers.add(value[1:])
            elif value.startswith("/assets/"):
                self.files.append(value.removeprefix("/assets/"))
        if tag == "style" or (tag == "script" and "src" not in given) or "style" in given:
            self.forbidden.append(self.get_starttag_text() or tag)
        self.forbidden += [f"{tag} {name}" for name in given if name.startswith("on")]
        if tag in {"button", "a"} and not given.get("aria-label") and tag == "button":
            self.forbidden.append(f"a button without a label: {self.get_starttag_text()}")


INDEX = _Page()


def _without_comments(text: str) -> str:
    return re.sub(r"^\s*(//|\*|/\*).*$", "", text, flags=re.MULTILINE)


@pytest.mark.skipif(not shutil.which("node"), reason="node is not on this machine")
def test_pure_modules_do_what_their_tests_say() -> None:
    run = subprocess.run(
        ["node", "--test", *map(str, JS_TESTS)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert JS_TESTS
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not on this machine")
def test_types_of_the_modules_agree() -> None:
    options = "--noEmit --allowJs --checkJs --strict --skipLibCheck --target es2022 --module esnext"
    libraries = "--moduleResolution bundler --lib es2023,dom,dom.iterable"
    compiler = _typescript()
    # It checks what changed since it was last run, and what depends on that.
    known = ["--incremental", "--tsBuildInfoFile", str(KEPT / "types.tsbuildinfo")]
    run = subprocess.run(
        ["node", str(compiler), *options.split(), *libraries.split(), *known, *map(str, MODULES)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert run.returncode == 0, run.stdout


def _typescript() -> Path:
    """The compiler, from npm; kept."""
    compiler = KEPT / "node_modules" / "typescript" / "lib" / "tsc.js"
    if not compiler.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-save", "--no-package-lock", "--ignore-scripts"]
        subprocess.run(
            [*install, "--loglevel=error", "--prefix", str(KEPT), TYPESCRIPT],
            check=True, capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
    return compiler


def test_data_is_only_ever_shown_as_text() -> None:
    markup = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|srcdoc|DOMParser"
        r"|createContextualFragment|\beval\(|new Function|javascript:"
    )
    found = {path.name: markup.findall(_without_comments(path.read_text())) for path in MODULES}

    assert not {name: words for name, words in found.items() if words}


def test_no_module_sets_what_the_policy_forbids() -> None:
    inline = re.compile(
        r"""setAttribute\(\s*["']style|\bstyle:\s*["'`]|cssText|["']on\w+["']\s*,"""
    )
    for path in MODULES:
        assert not inline.search(_without_comments(path.read_text())), path.name
    assert not INDEX.forbidden


def test_nothing_outside_is_named() -> None:
    for path in OWN:
        addresses = set(re.findall(r"""(?:https?:)//[^\s"'`)<>]+""", path.read_text()))
        if path.name == "index.html":
            addresses -= {"http://www.w3.org/2000/svg"}
        assert addresses <= OUTSIDE, path.name
        assert not re.search(r"""@import|url\(\s*["']?(?!data:)""", path.read_text()) or (
            path.suffix == ".js"
        ), path.name


def test_every_import_names_a_file_that_is_there() -> None:
    for path in MODULES:
        text = _without_comments(path.read_text())
        for name in re.findall(r"""(?:from|import\()\s*["'](\.[^"']+)["']""", text):
            assert (path.parent / name).is_file(), f"{path.name} imports {name}"
        for name in re.findall(r"""import\(["'](\.[^"']+)["']\)\.""", path.read_text()):
            assert (path.parent / name).is_file(), f"{path.name} names a type of {name}"
        for name in re.findall(r"""vendor/([\w.-]+)["']""", text):
            assert name in VENDOR_BYTES, f"{path.name} uses {name}"
    assert INDEX.files
    for name in INDEX.files:
        assert (STATIC / name).is_file(), f"index.html uses {name}"


def test_every_id_that_is_referred_to_is_there_once() -> None:
    assert len(INDEX.ids) == len(set(INDEX.ids))
    used = set(INDEX.refers)
    for path in MODULES:
        text = _without_comments(path.read_text())
        used.update(re.findall(r"""getElementById\(["']([^"']+)["']\)""", text))
        used.update(f"i-{name}" for name in re.findall(r"""\bicon\(["']([^"']+)["']\)""", text))
    app = (STATIC / "app.js").read_text()
    used.update(re.findall(r"""\belement\(["']([^"']+)["']\)""", app))

    assert used - set(INDEX.ids) == set()


def test_every_field_has_a_label() -> None:
    for path in MODULES:
        for field in re.finditer(
            r"""\bh\(\s*["'](?:input|select|textarea)["'],\s*\{""", path.read_text()
        ):
            props = path.read_text()[field.end() : field.end() + 600]
            has_label = "aria-label" in props or re.search(r"""\bid:""", props)
            inside = path.read_text()[: field.start()].rstrip().endswith((",", "("))
            assert has_label or (inside and '"label"' in path.read_text()), (
                f"{path.name}: {props[:60]}"
            )


def test_every_page_has_what_the_shell_asks_for() -> None:
    assert PAGES
    for path in PAGES:
        text = path.read_text()
        for name in ("title", "topics", "mount"):
            assert re.search(rf"^export (const|function) {name}\b", text, re.MULTILINE), path.name


def test_modules_are_checked_and_short() -> None:
    for path in MODULES:
        text = path.read_text()
        assert text.startswith("// @ts-check\n//"), f"{path.name} does not say what it is for"
    for path in OWN:
        assert path.read_text().count("\n") < 400, path.name


def _imported(path: Path) -> set[Path]:
    """A module and all that it imports, directly or not."""
    found, left = set[Path](), [path.resolve()]
    while left:
        module = left.pop()
        if module in found:
            continue
        found.add(module)
        names = re.findall(r"""from\s*["'](\.[^"']+)["']""", _without_comments(module.read_text()))
        left += [(module.parent / name).resolve() for name in names]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_page_is_light(page: Path) -> None:
    loaded = _imported(page) | _imported(STATIC / "app.js")
    loaded |= {(STATIC / name).resolve() for name in ["index.html", *INDEX.files]}
    text = "".join(path.read_text() for path in loaded if path.suffix == ".js")
    vendor = sum(size for name, size in VENDOR_BYTES.items() if name in text)

    assert sum(path.stat().st_size for path in loaded) + vendor <= MOST_BYTES


def test_the_chart_library_is_named_on_its_page() -> None:
    market = (STATIC / "pages" / "market.js").read_text()
    candles = (STATIC / "parts" / "candles.js").read_text()

    assert "Charts: TradingView Lightweight Charts™" in market
    assert "attributionLogo: false" in candles


def test_every_command_that_is_named_exists() -> None:
    """Pages say what to do next; of commands with subcommands the second word is checked too."""
    known = re.findall(r"^## `penstock ([a-z ]+)`$", (ROOT / "docs" / "cli.md").read_text(), re.M)
    groups = {words.split()[0] for words in known if " " in words}
    said = "\n".join(path.read_text() for path in OWN)
    named = re.findall(r"penstock ([a-z]+)(?: ([a-z]+))?", said)
    assert len(named) > 20
    for command, second in named:
        if command in groups and second:
            assert f"{command} {second}" in known
        else:
            assert command in known, f"penstock {command}"
