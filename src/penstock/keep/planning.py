"""Says what a keeper would do, without doing it."""

from msgspec import Struct


class Planned(Struct, frozen=True, kw_only=True):
    """One step that is due."""

    action: str
    """seal, compact, delete or vacuum."""
    table: str
    where: str = ""
    """The slot, or the partition."""
    records: int = 0
    """Records to be sealed, or rows to be deleted."""
    files: int = 0
    size_bytes: int = 0
