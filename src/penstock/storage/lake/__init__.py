"""The lake: closed ranges of the log as Delta tables, one table for each channel."""
