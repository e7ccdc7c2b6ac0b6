"""Upbit's way of saying no: a status, a name and a sentence."""

import msgspec

from penstock.simulator.engine.exchange import Refused, Reply


def said(status: int, name: str | int, message: str) -> Reply:
    """The answer that carries an error."""
    error = {"name": name, "message": message}
    return Reply(msgspec.json.encode({"error": error}), status=status)


def missing() -> Refused:
    """A parameter that must be there is not."""
    message = "Missing request parameter error. Check the required parameters!"
    return Refused(said(400, 400, message))


def invalid(name: str) -> Refused:
    """A parameter's value is not one."""
    return Refused(said(400, "validation_error", f"{name} does not have a valid value"))


def not_found() -> Refused:
    """No such market is listed."""
    return Refused(said(404, 404, "Code not found"))
