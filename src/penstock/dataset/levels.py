"""Price levels as lists of prices and quantities, from the JSON that exchanges send."""

import polars as pl
import pyarrow as pa

_BEGIN, _BETWEEN, _END, _EMPTY = '[["', '"],["', '"]]', "[]"


def levels_of(texts: pl.Expr, numbers: pl.DataType) -> pl.Expr:
    """A column of JSON pairs as lists of levels, with numbers of this type."""
    kind = pl.List(pl.Struct({"price": numbers, "quantity": numbers}))
    return texts.map_batches(
        lambda column: _split(column, numbers) if _is_plain(column) else _decoded(column, numbers),
        return_dtype=kind,
        is_elementwise=True,
    )


def _is_plain(texts: pl.Series) -> bool:
    """Whether all are pairs of texts, written without spaces."""
    return bool(
        texts.null_count() == 0
        and ((texts.str.starts_with(_BEGIN) & texts.str.ends_with(_END)) | (texts == _EMPTY)).all()
    )


def _split(texts: pl.Series, numbers: pl.DataType) -> pl.Series:
    """Splits the texts at their separators, which takes less time than decoding JSON."""
    is_full = texts != _EMPTY
    full = texts.filter(is_full)
    counts = full.str.count_matches(_BETWEEN, literal=True) + 1
    inner = full.str.strip_prefix(_BEGIN).str.strip_suffix(_END)
    pieces = inner.str.replace_all(_BETWEEN, '","', literal=True).str.split('","')
    if not (pieces.list.len() == 2 * counts).all():
        return _decoded(texts, numbers)  # some levels are no pairs
    flat = pieces.explode().cast(numbers, strict=False)
    if flat.null_count():
        return _decoded(texts, numbers)
    levels = pl.DataFrame({"price": flat.gather_every(2), "quantity": flat.gather_every(2, 1)})
    sizes = pl.Series("", is_full.cast(pl.Int64)) if full.is_empty() else _spread(is_full, counts)
    ends = pl.concat([pl.Series([0], dtype=pl.Int64), sizes.cum_sum()])
    lists = pa.LargeListArray.from_arrays(ends.to_arrow(), levels.to_struct().to_arrow())
    return pl.Series(texts.name, lists)


def _spread(is_full: pl.Series, counts: pl.Series) -> pl.Series:
    """The number of levels of every row: those of the full ones, and zero."""
    index = (is_full.cast(pl.Int64).cum_sum() - 1).clip(0)
    return counts.gather(index).cast(pl.Int64) * is_full.cast(pl.Int64)


def _decoded(texts: pl.Series, numbers: pl.DataType) -> pl.Series:
    pairs = pl.lit(texts).str.json_decode(pl.List(pl.List(pl.String)))
    price, quantity = (pl.element().list.get(index) for index in (0, 1))
    level = pl.struct(price.cast(numbers).alias("price"), quantity.cast(numbers).alias("quantity"))
    return pl.select(pairs.list.eval(level).alias(texts.name)).to_series()
