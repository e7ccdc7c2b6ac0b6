"""What the settings are, read from their Structs: names, variables, types and descriptions.

The string under each field describes it. Python does not keep these strings, so they are read from
the source.
"""

import ast
import inspect
import types
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from penstock.config.secret import may_be_in_file


def setting_names(root: type[Struct]) -> dict[str, Any]:
    """Return dotted name → type of every setting below ``root``, in order of declaration."""
    names: dict[str, Any] = {}
    for field, hint in get_type_hints(root, include_extras=True).items():
        if is_section(hint):
            names.update({f"{field}.{inner}": t for inner, t in setting_names(hint).items()})
        else:
            names[field] = hint
    return names


def environment_name(dotted: str) -> str:
    """Return the variable of a setting: ``simulator.port`` → ``PENSTOCK_SIMULATOR_PORT``."""
    return "PENSTOCK_" + dotted.replace(".", "_").upper()


def in_file_names(names: Mapping[str, Any]) -> dict[str, str]:
    """Return ``api.token_file`` → ``api.token``, for every setting that may be in a file."""
    return {f"{name}_file": name for name, hint in names.items() if may_be_in_file(hint)}


def table_of(hint: Any) -> type[Struct] | None:
    """Return the type of a setting's tables, if it is a table of tables by name."""
    arguments = get_args(hint) if get_origin(hint) is dict else ()
    struct = arguments[1] if arguments else None
    return struct if isinstance(struct, type) and issubclass(struct, Struct) else None


def describe(hint: Any) -> str:
    """Return a description of a setting's type."""
    if get_origin(hint) is Annotated:
        base, *metas = get_args(hint)
        meta = metas[0]
        bounds = [("≥", meta.ge), (">", meta.gt), ("≤", meta.le), ("<", meta.lt)]
        limits = " and ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
        return f"{describe(base)} {limits}".strip()
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(get_args(hint))
    if get_origin(hint) is tuple:
        part = get_args(hint)[0]
        each = f", each {describe(part)}" if get_origin(part) is Literal else ""
        return f"a list, or names separated by commas{each}"
    if table_of(hint):
        return "tables, one by name"
    if get_origin(hint) is dict:
        return "a table, or name=value pairs separated by commas"
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(describe(part) for part in get_args(hint) if part is not type(None))
    return {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        date: "a day",
    }.get(hint, "text")


def is_section(hint: Any) -> bool:
    """Whether a field of this type is a section of further settings."""
    return isinstance(hint, type) and issubclass(hint, Struct)


def field_notes(struct: type[Struct]) -> dict[str, str]:
    """Return the string under each field of a class, as one line."""
    tree = ast.parse(inspect.getsource(struct)).body[0]
    assert isinstance(tree, ast.ClassDef)
    notes: dict[str, str] = {}
    for statement, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            notes[statement.target.id] = " ".join(str(after.value.value).split())
    return notes
