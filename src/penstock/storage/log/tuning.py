"""How RocksDB is set: for the owner of a slot, and for its readers."""

from itertools import repeat

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    ReadOptions,
)

_READERS_CACHE = 32 * 1024 * 1024
_LEVELS = 7
"""Of tables, as RocksDB has them."""


def readers_options() -> Options:
    """For a secondary."""
    return _options(_READERS_CACHE)


def owners_options() -> Options:
    """For the one process that writes."""
    # An owner reads next to nothing: where a record that came late belongs.
    options = _options(cache_bytes=4 * 1024 * 1024)
    # What is not yet in tables is in memory: little of it, so that an owner's memory stays level.
    options.set_write_buffer_size(16 * 1024 * 1024)
    # Nor need tables that pile up over months all be open.
    options.set_max_open_files(64)
    # All streams grow at once, so that to merge new tables with old ones is to write all of it
    # anew: done seldom, and compressed only then, it takes a third less time in the long run.
    options.set_level_zero_file_num_compaction_trigger(16)
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(80)
    young, older = DBCompressionType.none(), DBCompressionType.lz4()
    options.set_compression_per_level([young, *repeat(older, _LEVELS - 1)])
    return options


def read_options() -> ReadOptions:
    """For every iterator."""
    options = ReadOptions()
    options.set_verify_checksums(True)
    return options


def _options(cache_bytes: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    # Fast while it is young, small once it is old.
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    table = BlockBasedOptions()
    table.set_block_size(16 * 1024)
    table.set_block_cache(Cache(cache_bytes))
    # What tells where to look in a table as well: otherwise it takes memory for every open table.
    table.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(table)
    # One more buffer than usual: a flush that takes long does not stop the writer.
    options.set_max_write_buffer_number(4)
    # RocksDB's own diary, a few megabytes at most.
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(4 * 1024 * 1024)
    # A process may die while it writes a record: one that is cut short at the end is dropped. What
    # is damaged elsewhere is refused, where by default all that follows would be dropped too.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_paranoid_checks(True)
    # A secondary keeps reading files its owner has deleted, as long as it never closes them.
    options.set_max_open_files(-1)
    return options
