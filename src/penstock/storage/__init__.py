"""Stores of records and of state. Each kind of store is an interface with one file per backend."""
