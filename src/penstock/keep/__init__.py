"""The keeper moves records from the log to the lake and bounds the size of both."""
