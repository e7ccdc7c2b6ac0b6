"""The options of RocksDB, for the owner of a slot and for its readers."""

from functools import lru_cache
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    ReadOptions,
    UniversalCompactionStopStyle,
    UniversalCompactOptions,
)

_PIECE_BYTES = 128 * 1024
"""Of memory for records that are not in tables yet. Larger pieces are mapped one by one (see
``cli.memory``), and with each the kernel has to clear every page again."""
_AT_ONCE = 16
"""Tables that are merged into one."""
_SIMILAR_PERCENT = 60
"""By how much one of them may be larger than the one before."""
_NEVER_PERCENT = 1_000_000
_OPTIONS = Path(__file__).parent / "rocksdb_options"
"""Options that rocksdict has no method for, in a file of RocksDB."""
_WINDOW_BITS, _FAST, _STRATEGY, _NO_DICTIONARY = -14, -1, 0, 0
"""Of zstd: RocksDB's defaults, but for the level, which takes as little time as lz4."""

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
    return _options(cache, Options(raw_mode=True))


def owners_options() -> Options:
    """The options for the one process that writes."""
    # An owner hardly reads: only to place a record that arrived late.
    options = _options(Cache(4 * 1024 * 1024), Options.load_latest(str(_OPTIONS))[1]["default"])
    # What is not yet in tables is in memory: a small buffer keeps an owner's memory constant.
    options.set_write_buffer_size(16 * 1024 * 1024)
    options.set_arena_block_size(_PIECE_BYTES)
    # Tables accumulate over months and need not all be open.
    options.set_max_open_files(64)
    _merge_rarely(options)
    return options


def _merge_rarely(options: Options) -> None:
    """Merge tables of about the same size, many at a time.

    All streams grow at once, so every new table overlaps with all older ones. RocksDB's usual way,
    by levels, would rewrite the older ones each time. This way each record is rewritten once per
    sixteenfold growth (docs/decisions/0024-tables-of-one-size-are-merged.md).
    """
    options.set_compaction_style(DBCompactionStyle.universal())
    merging = UniversalCompactOptions()
    merging.min_merge_width = _AT_ONCE
    # The types of rocksdict are wrong about this one.
    merging.stop_style = UniversalCompactionStopStyle.similar()  # type: ignore[call-arg, func-returns-value, assignment]
    merging.size_ratio = _SIMILAR_PERCENT
    merging.max_size_amplification_percent = _NEVER_PERCENT
    options.set_universal_compaction_options(merging)
    options.set_level_zero_file_num_compaction_trigger(2 * _AT_ONCE)
    options.set_level_zero_slowdown_writes_trigger(4 * _AT_ONCE)
    options.set_level_zero_stop_writes_trigger(6 * _AT_ONCE)
    options.set_bottommost_compression_options(
        _WINDOW_BITS, _FAST, _STRATEGY, _NO_DICTIONARY, enable=True
    )


def read_options() -> ReadOptions:
    """The options for every iterator."""
    options = ReadOptions()
    options.set_verify_checksums(True)
    return options


def _options(cache: Cache, options: Options) -> Options:
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
