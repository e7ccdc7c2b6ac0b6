"""Checks pages with axe-core, which npm has; pyproject.toml pins it."""

import functools
from pathlib import Path
from typing import Any

from playwright.sync_api import Page
from tests.console.vendor_script import ROOT, vendor_script

KEPT = ROOT / ".pytest_cache" / "axe"
FILE = "axe.min.js"
GRAVE = ("serious", "critical")


@functools.cache
def axe() -> Path:
    """The script; fetched once."""
    script = vendor_script()
    [pinned] = script.pinned(ROOT, "vendor-tests")
    file: Path = KEPT / pinned.version / FILE
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(script.files_of(pinned)[FILE])
    return file


def violations(page: Page) -> dict[str, Any]:
    """What is serious, by rule: the elements concerned."""
    # Evaluated, not added as an element, which the policy of the page forbids.
    page.evaluate(axe().read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return {
        each["id"]: [node["html"][:200] for node in each["nodes"][:5]]
        for each in found
        if each["impact"] in GRAVE
    }
