"""The code itself, held to the rules the project set itself."""

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "penstock"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TRACKED = subprocess.run(
    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT, capture_output=True, text=True, check=True,
).stdout.split("\0")[:-1]  # fmt: skip

EXCHANGES = ("binance", "kraken", "coinbase", "upbit")

# Public names and sections of settings that belong to one exchange have its name.
NAMES_EXCHANGES = {"throttled/__init__.py", "config/__init__.py", "config/simulator.py"}

# What may appear in one place only, and where.
ONLY_IN: dict[str, str | tuple[str, ...]] = {
    r"\btime\.(time|monotonic|perf_counter|sleep)|asyncio\.sleep": "clock.py",
    r"\bdatetime\.(now|utcnow|today)\b": "clock.py",
    # What runs compiled is decided before there are settings.
    r"\bos\.environ|\bgetenv\b": ("cli/", "compiled/"),
    r"\bfcntl\.flock\b": "files.py",
}


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


# One test for all modules, since each test costs more than reading one.
def test_every_module_is_tidy() -> None:
    for path in SOURCES:
        name, text = relative(path), path.read_text()
        assert ast.get_docstring(ast.parse(text)), f"{name}: every module says what it is for"
        assert text.count("\n") < 400, f"{name}: split it, a file is read in one sitting"
        for pattern, home in ONLY_IN.items():
            if not name.startswith(home):
                assert not re.search(pattern, text), f"{name}: {pattern} belongs in {home}"


def test_an_exchange_is_named_only_in_its_folder() -> None:
    for path in SOURCES:
        inside = [part.removesuffix(".py") for part in path.relative_to(PACKAGE).parts]
        # A command's example is documentation, and a reader wants one that runs.
        lines = [line for line in path.read_text().lower().splitlines() if "example: " not in line]
        for exchange in EXCHANGES:
            if exchange not in inside and relative(path) not in NAMES_EXCHANGES:
                named = [line for line in lines if exchange in line]
                assert not named, f"{relative(path)}: {exchange} has a folder of its own"


def test_an_exchanges_folder_holds_only_what_differs() -> None:
    folders = {path.parent for path in (PACKAGE / "exchanges").glob("*/**/*.py")}

    assert {folder.name for folder in folders} >= {*EXCHANGES, "ccxt"}
    for folder in folders:
        lines = sum(path.read_text().count("\n") for path in folder.glob("*.py"))
        assert lines <= 800, f"{relative(folder)}: share what other exchanges do as well"


def test_every_test_module_says_what_it_promises() -> None:
    silent = [path for path in TESTS if not path.read_text().startswith('"""')]

    assert not silent


def test_no_package_is_a_drawer_for_everything() -> None:
    names = {part.removesuffix(".py") for path in SOURCES for part in path.parts}

    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_no_tracked_file_names_a_registry_host() -> None:
    address = re.compile(r"https?://[^\s)]*(/simple/|\.whl|\.tgz|/-/)")
    for name in TRACKED:
        path = ROOT / name
        if path.is_file() and path.suffix in {".txt", ".toml", ".md", ".py", ".json", ""}:
            assert not address.search(path.read_text(errors="ignore")), name


def test_the_readme_is_read_in_one_sitting() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 150


def _imported(path: Path) -> set[str]:
    """The modules of the package that one imports, also those for types alone or in a function."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found.add(inner if inner in MODULES else node.module)
    return found & MODULES.keys()


def _module(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {_module(path): path for path in SOURCES}


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {name: _imported(path) - {name} for name, path in MODULES.items()}
    while free := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in free:
            del left[name]
    assert not left, f"these are in a circle, or import one that is: {sorted(left)}"
