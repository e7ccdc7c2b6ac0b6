"""A list of facts that can also be had as a frame."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, overload

import msgspec
import polars as pl
import pyarrow as pa
from msgspec import Struct

from penstock.errors import MissingExtra

if TYPE_CHECKING:
    import pandas as pd

S = TypeVar("S", bound=Struct)


class Listing(Sequence[S]):
    """Rows of one kind, in order. Times in frames are timestamps in UTC."""

    def __init__(self, kind: type[S], rows: Sequence[S]) -> None:
        self._kind, self._rows = kind, rows

    @overload
    def __getitem__(self, index: int) -> S: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[S]: ...
    def __getitem__(self, index: int | slice) -> S | Sequence[S]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return repr(self._rows)

    def polars(self) -> pl.DataFrame:
        """The rows as a polars frame."""
        fields = msgspec.structs.fields(self._kind)
        names = [field.name for field in fields]
        types = {
            field.name: pl.Int64 if field.type in (int, int | None) else pl.String
            for field in fields
        }
        rows = [msgspec.structs.astuple(row) for row in self._rows]
        frame = pl.DataFrame(rows, schema=types, orient="row")
        return frame.with_columns(
            pl.col(name).cast(pl.Datetime("ms", "UTC")).dt.cast_time_unit("us")
            for name in names
            if name.endswith("_ms")
        ).rename({name: name.removesuffix("_ms") for name in names if name.endswith("_ms")})

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.polars().to_arrow()

    def pandas(self) -> "pd.DataFrame":
        """The rows as a pandas frame. Needs the extra ``pandas``.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401, PLC0415 (an extra of its own)
        except ModuleNotFoundError as error:
            raise MissingExtra("pandas", "pandas") from error
        frame: pd.DataFrame = self.polars().to_pandas()
        return frame
