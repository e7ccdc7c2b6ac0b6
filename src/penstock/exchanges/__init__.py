"""Definitions of the exchanges, one folder each, and the gateway that sends all requests."""
