"""The options of RocksDB, for the owner of a slot and for its readers."""

from functools import lru_cache
from itertools import repeat

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    ReadOptions,
)

_LEVELS = 7
"""Levels of tables, RocksDB's default."""


READERS_CACHE = 32 * 1024 * 1024


@lru_cache(maxsize=8)
def readers_cache(folder: str) -> Cache:
    """The cache of all readers of the slots in a folder: one for each would add up.

    It has no blocks of other folders, as RocksDB takes a copy of a table for the same table: in a
    copy that is damaged, the sound blocks of the other would be found.
    """
    del folder
    return Cache(READERS_CACHE)


def readers_options(cache: Cache) -> Options:
    """The options for a secondary."""
    return _options(cache)


def owners_options() -> Options:
    """The options for the one process that writes."""
    # An owner hardly reads: only to place a record that arrived late.
    options = _options(Cache(4 * 1024 * 1024))
    # What is not yet in tables is in memory: a small buffer keeps an owner's memory constant.
    options.set_write_buffer_size(16 * 1024 * 1024)
    # Tables accumulate over months and need not all be open.
    options.set_max_open_files(64)
    # All streams grow at once, so merging new tables with old ones rewrites all of them. Merging
    # rarely, and compressing only then, takes a third less time in the long run.
    options.set_level_zero_file_num_compaction_trigger(16)
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(80)
    young, older = DBCompressionType.none(), DBCompressionType.lz4()
    options.set_compression_per_level([young, *repeat(older, _LEVELS - 1)])
    return options


def read_options() -> ReadOptions:
    """The options for every iterator."""
    options = ReadOptions()
    options.set_verify_checksums(True)
    return options


def _options(cache: Cache) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    # Fast for recent data, small for old data.
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    table = BlockBasedOptions()
    table.set_block_size(16 * 1024)
    table.set_block_cache(cache)
    # Indexes and filters are cached as well: otherwise they take memory for every open table.
    table.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(table)
    # One more buffer than usual, so that a slow flush does not stop the writer.
    options.set_max_write_buffer_number(4)
    # RocksDB's own info log, a few megabytes at most.
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(4 * 1024 * 1024)
    # A process may be killed while it writes a record: an incomplete one at the end is dropped.
    # Damage elsewhere is an error; by default everything after it would be dropped too.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_paranoid_checks(True)
    # A secondary keeps reading files its owner has deleted, as long as it never closes them.
    options.set_max_open_files(-1)
    return options
