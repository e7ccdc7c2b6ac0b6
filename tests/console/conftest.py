"""A browser, and a demo that it looks at."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright
from tests.console.scene import MARKETS, Scene, chromium, scene, until

OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


# Of a module: while Playwright runs, this thread has an event loop, and other tests start one.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = chromium()
    if found is None:
        problem = "there is no Chromium: install Debian's package chromium"
        assert not os.environ.get("CI"), problem
        pytest.skip(problem)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(OPTIONS))
        yield started
        started.close()


class Visit:
    """A page, and everything about it that must not happen."""

    def __init__(self, context: BrowserContext) -> None:
        self.context, self.page = context, context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.expected: tuple[str, ...] = ()
        """Parts of messages that a test provokes."""
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text}")

    def check(self) -> None:
        unexpected = [
            each for each in self.problems if not any(part in each for part in self.expected)
        ]
        assert not unexpected, unexpected


@contextmanager
def visiting(browser: Browser, **options: object) -> Iterator[Visit]:
    """A page of a new session, without a problem when it is left."""
    context = browser.new_context(**options)  # type: ignore[arg-type]
    try:
        visit = Visit(context)
        yield visit
        visit.check()
    finally:
        context.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    with visiting(browser, viewport={"width": 1360, "height": 900}) as visit:
        yield visit


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.page


# Of a module, too: of a package without `__init__.py` it would run until all tests have ended.
@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Two exchanges that are collected, a worker and a server."""
    folder: Path = tmp_path_factory.mktemp("console") / "data"
    with scene(folder) as at:
        for exchange in MARKETS:
            at.simulate(exchange)
            at.collect(exchange)
        at.begin("work", "work")
        at.serve()
        until(lambda: len(at.get("processes")["items"]) >= 4)
        yield at


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of pages go: docs/screenshots if they are to be made anew."""
    if not os.environ.get("PENSTOCK_TEST_SCREENSHOTS"):
        return tmp_path_factory.mktemp("screenshots")
    folder = Path(__file__).parents[2] / "docs" / "screenshots"
    folder.mkdir(exist_ok=True)
    return folder
