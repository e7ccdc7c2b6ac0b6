"""Logs everything in one format, each line with a level.

Facts, the logs of libraries, warnings, and uncaught exceptions all go through Python's logging to
one handler on stderr, so that there is one format to parse.
"""

import logging
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from penstock.errors import mask_urls
from penstock.telemetry.facts import Fact, Level
from penstock.telemetry.printable import printable, printable_json

__all__ = [
    "configure_logging",
    "hidden_from_stderr",
    "log_error",
    "log_facts",
    "log_info",
    "log_is_configured",
    "logs_json",
]

OWN = "penstock"


def log_facts(fact: Fact) -> None:
    """Write a fact as one structured log line, if its level is enabled. A listener."""
    level = logging.getLevelName(fact.logged_at().upper())
    logger = logging.getLogger(fact.logger)
    if logger.isEnabledFor(level):
        fields: Mapping[str, Any] = msgspec.to_builtins(fact)
        rest = {name: value for name, value in fields.items() if name != "fact"}
        name = type(fact).__name__
        if structlog.is_configured():
            structlog.get_logger(fact.logger).log(level, name, **rest)
        else:  # a program that uses penstock as a library has set up logging itself
            words = " ".join(f"{field}={value!r}" for field, value in rest.items())
            logger.log(level, "%s %s", name, mask_urls(words))


def log_info(event: str, **fields: object) -> None:
    """Write one structured info line."""
    structlog.get_logger(OWN).info(event, **fields)


def log_error(event: str, **fields: object) -> None:
    """Write one structured error line."""
    structlog.get_logger(OWN).error(event, **fields)


def logs_json() -> bool:
    """Whether this process logs JSON."""
    return _Style.now == "json"


class _Style:
    now = ""


def configure_logging(style: str, level: Level = "info") -> None:
    """Send everything to stderr: ``human`` for a terminal, ``json`` for machines."""
    _Style.now = style
    renderer: list[Processor] = [
        _printable,
        # Its default formatter prints local variables, with secrets among them.
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        ),
    ]
    handler = ToStderr()
    handler.setFormatter(json_formatter() if style == "json" else _formatter(renderer))
    # Of the handler, since a file may have more than stderr.
    handler.setLevel(level.upper())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # What libraries log below a warning is for their developers.
    root.setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    logging.getLogger(OWN).setLevel(level.upper())
    structlog.configure(
        processors=[*_shared(), structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    logging.captureWarnings(True)
    sys.excepthook = _log_crash
    threading.excepthook = lambda args: _log_crash(
        args.exc_type, args.exc_value, args.exc_traceback
    )


def json_formatter() -> logging.Formatter:
    """Formats lines as JSON, with the time, level and event first."""
    return _formatter(
        [
            structlog.processors.format_exc_info,
            _ordered,
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
    )


def _formatter(renderer: Sequence[Processor]) -> logging.Formatter:
    return _Masking(
        foreign_pre_chain=[*_shared(), _name_of_logger, structlog.stdlib.ExtraAdder()],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
    )


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", key="ts"),
    ]


def log_is_configured() -> bool:
    """Whether this process logs as ``configure_logging`` says."""
    return any(isinstance(each, ToStderr) for each in logging.getLogger().handlers)


_hidden: ContextVar[bool] = ContextVar("hidden", default=False)


@contextmanager
def hidden_from_stderr(hidden: bool) -> Iterator[None]:
    """Write lines only where they are kept, if they would break what is drawn on the terminal."""
    before = _hidden.set(hidden)
    try:
        yield
    finally:
        _hidden.reset(before)


class _Masking(structlog.stdlib.ProcessorFormatter):
    """Formats lines without the passwords in URLs, also those of libraries and tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return mask_urls(super().format(record))


class ToStderr(logging.StreamHandler[TextIO]):
    """Writes to the current ``sys.stderr``, which a terminal view replaces."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Leave out what is hidden."""
        return not _hidden.get() and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """Ignore a closed terminal, a broken pipe or a full disk: they must not end the process."""
        if not isinstance(sys.exception(), OSError) and not sys.stderr.closed:
            super().handleError(record)


def _ordered(_: object, __: str, event: EventDict) -> EventDict:
    first = {name: event[name] for name in ("ts", "level", "event") if name in event}
    return {**first, **event}


def _name_of_logger(_: object, __: str, event: EventDict) -> EventDict:
    """Add the logger's name to lines that are not penstock's own."""
    event["logger"] = event["_record"].name
    return event


def _log_crash(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    """Log an uncaught exception; Ctrl-C is not a crash."""
    if issubclass(kind, KeyboardInterrupt) or error is None:
        sys.__excepthook__(kind, error or kind(), trace)
        return
    structlog.get_logger(OWN).critical("crashed", exc_info=(kind, error, trace))


def _printable(_: object, __: str, event: EventDict) -> EventDict:
    """Escape control characters in all fields; a traceback keeps its line breaks."""
    for name, value in event.items():
        if name not in ("exception", "stack"):
            event[name] = printable(value) if isinstance(value, str) else value
    return event


def _to_json(value: object, **_: object) -> str:
    return printable_json(msgspec.json.encode(value, enc_hook=repr).decode())
