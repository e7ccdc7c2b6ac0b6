"""The build hook of hatch: gets the console's libraries, and compiles the extension."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _script(root: str, name: str) -> ModuleType:
    """A module of this folder, which is not a package and not on the path."""
    spec = importlib.util.spec_from_file_location(name, Path(root) / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildHook(BuildHookInterface[Any]):
    """Puts both into every build, and into the source tree for an editable one."""

    def dependencies(self) -> list[str]:
        root = Path(self.root)
        needed = list(_script(self.root, "vendor").requirements(root))
        if self.target_name == "wheel":
            needed += _script(self.root, "compile_hot").requirements(root)
        return needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root, vendor = Path(self.root), _script(self.root, "vendor")
        try:
            vendor.get_missing(root)
        except vendor.NotFetched as error:
            if version != "editable":
                raise SystemExit(vendor.advice(error)) from None
            # All else works without charts, and they can be fetched later.
            self.app.display_warning(vendor.advice(error))
        if self.target_name == "wheel":
            self._compile(build_data)

    def _compile(self, build_data: dict[str, Any]) -> None:
        hot = _script(self.root, "compile_hot")
        try:
            hot.compile_missing(Path(self.root))
        except hot.NotCompiled as error:
            self.app.display_warning(hot.notice(error))
            return
        build_data["pure_python"] = False
        build_data["tag"] = hot.wheel_tag()
