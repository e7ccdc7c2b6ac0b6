"""Collecting: connections on real sockets, what they bring recorded, what is missing named."""
