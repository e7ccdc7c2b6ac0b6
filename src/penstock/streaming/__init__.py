"""Streams without sockets: what a frame means, what is missing, whether a book is right."""
