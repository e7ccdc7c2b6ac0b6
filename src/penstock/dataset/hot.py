"""Rows from the log: what was recorded most recently, and what no lake holds."""

from collections.abc import Collection, Generator, Iterator
from contextlib import closing
from itertools import islice

import polars as pl
from msgspec.structs import replace

from penstock.dataset.merging import time_of
from penstock.dataset.times import Range
from penstock.errors import MissingExtra, UnknownExchange
from penstock.exchanges import registry
from penstock.market import channels
from penstock.market.channels import Channel
from penstock.publish.endpoints import find_log_id
from penstock.storage.lake.columns import table_of
from penstock.storage.log import EventLog, LogReader, Span, Stored
from penstock.storage.log.keys import Stream

_BATCH_RECORDS = 16_384


def hot_frames(
    log: EventLog, streams: Collection[Stream], times: Range
) -> Generator[pl.DataFrame, None, None]:
    """The records of some streams of one channel in a range of time, as rows with their times.

    Every call reads with a reader of its own, so several may run at the same time.

    Raises:
        NotOurRecord: a record is damaged, or a newer version wrote it.
        LogDamaged, StorageError: the log cannot be read.
    """
    log_id = (find_log_id(log.folder) if log.folder is not None else None) or 0
    with closing(log.reader()) as reader:
        for stream in streams:
            row = channels.find(stream.channel)
            assert row is not None, "only streams of known channels are read"
            for batch in _batches(reader, row, stream, times):
                frame = pl.from_arrow(table_of(row, batch, log_id))
                assert isinstance(frame, pl.DataFrame)
                yield frame.with_columns(time_of(row))


def _batches(
    reader: LogReader, row: Channel, stream: Stream, times: Range
) -> Iterator[list[Stored]]:
    span = Span(
        market_since_ns=times.since_ns,
        market_until_ns=times.until_ns,
        rising=ids_rise(stream),
    )
    # Older versions recorded the events of some channels in the stream of another one.
    for name in filter(None, (stream.channel, row.formerly)):
        for batch in _of(reader, stream._replace(channel=name), span):
            wanted = [each for each in batch if type(each.event) is row.event]
            if wanted:
                yield wanted


def _of(reader: LogReader, stream: Stream, span: Span) -> Iterator[list[Stored]]:
    records = reader.scan(stream, span)
    while batch := [_decoded(each) for each in islice(records, _BATCH_RECORDS)]:
        yield batch


def _decoded(stored: Stored) -> Stored:
    """The same record with its event, which is needed more than once."""
    return replace(stored, known=stored.event)


def ids_rise(stream: Stream) -> bool:
    """Whether the exchange numbers the events of this channel consecutively."""
    try:
        return stream.channel in registry.load(stream.exchange).consecutive
    except (UnknownExchange, MissingExtra):
        return False
