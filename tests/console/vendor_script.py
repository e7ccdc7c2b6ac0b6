"""The script that gets the chart libraries, which is not part of the package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def vendor_script() -> ModuleType:
    """Load it."""
    spec = importlib.util.spec_from_file_location("vendor", ROOT / "scripts" / "vendor.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["vendor"] = script  # dataclasses look their module up
    spec.loader.exec_module(script)
    return script
