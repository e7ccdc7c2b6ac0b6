"""The page on throttling: every example on it runs."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent.parent / "docs" / "throttling.md"


async def test_the_examples_run_one_after_the_other() -> None:
    names: dict[str, Any] = {}
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    for example in examples:
        code = compile(example, PAGE.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        done = eval(code, names)
        if inspect.iscoroutine(done):
            await done

    assert len(examples) == 7, "the page has as many"
