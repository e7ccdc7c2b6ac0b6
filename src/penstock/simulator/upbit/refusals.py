"""Defines the error responses of Upbit: a status, a name and a message each."""

import msgspec

from penstock.simulator.engine.exchange import Refused, Reply


def said(status: int, name: str | int, message: str) -> Reply:
    """A response with an error."""
    error = {"name": name, "message": message}
    return Reply(msgspec.json.encode({"error": error}), status=status)


def missing() -> Refused:
    """A mandatory parameter is missing."""
    message = "Missing request parameter error. Check the required parameters!"
    return Refused(said(400, 400, message))


def invalid(name: str) -> Refused:
    """A parameter's value is invalid."""
    return Refused(said(400, "validation_error", f"{name} does not have a valid value"))


def not_found() -> Refused:
    """The market is not listed."""
    return Refused(said(404, 404, "Code not found"))
