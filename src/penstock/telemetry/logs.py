"""Logs: everything a process says of itself, in one format, each line with a level.

Facts, what libraries log, warnings, and what ends a process unforeseen all go through Python's
logging to one handler on stderr, so that whoever reads it needs to know one format.
"""

import logging
import sys
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from penstock.errors import mask_urls
from penstock.telemetry import facts
from penstock.telemetry.facts import Fact, Level
from penstock.telemetry.printable import printable, printable_json

__all__ = [
    "configure_logging",
    "level_of",
    "log_error",
    "log_facts",
    "log_info",
    "logs_json",
]

_OWN = "penstock"
_LEVELS: dict[type[Fact], Level] = {
    # There may be thousands of these, and they are counted elsewhere.
    facts.FaultInjected: "debug",
    facts.FetchDone: "debug",
    facts.StreamProbed: "debug",
    facts.RequestSent: "debug",
    # Something is not as it should be: it is being dealt with, or something is missing.
    facts.BookDrifted: "warning",
    facts.BusFell: "warning",
    facts.BusRefused: "warning",
    facts.CandlesMissing: "warning",
    facts.LoginFailed: "warning",
    facts.ConnectionLost: "warning",
    facts.ExchangeSilent: "warning",
    facts.FetchFailed: "warning",
    facts.FetchFellShort: "warning",
    facts.GapFound: "warning",
    facts.JobFailed: "warning",
    facts.JobLost: "warning",
    facts.MessagesDropped: "warning",
    facts.RequestFailed: "warning",
    facts.RequestRefused: "warning",
    facts.SendingStopped: "warning",
    facts.SnapshotFailed: "warning",
    facts.StatusUnreadable: "warning",
    facts.StreamStalled: "warning",
    # It stays so until somebody does something.
    facts.BudgetUnreachable: "error",
    facts.ListenerFailed: "error",
    facts.RequestCrashed: "error",
    facts.StatusUnwritable: "error",
    facts.StoreSilent: "error",
}


def level_of_kind(kind: type[Fact]) -> Level:
    """The level of such facts, unless one says that it is worse."""
    return _LEVELS.get(kind, kind.level)


def level_of(fact: Fact) -> Level:
    """The level of a fact."""
    match fact:
        case facts.JobFailed(given_up=True):
            return "error"
        case facts.SymbolsReread(refused=refused) if refused:
            return "error"
        case facts.RequestSent(status=status) if status >= 400:
            return "warning"
        case facts.RequestServed(status=status) if status >= 500:
            return "error"
    return level_of_kind(type(fact))


def log_facts(fact: Fact) -> None:
    """A listener that writes each fact as one structured log line, if its level is wanted."""
    level = logging.getLevelName(level_of(fact).upper())
    if logging.getLogger(_OWN).isEnabledFor(level):
        fields: Mapping[str, Any] = msgspec.to_builtins(fact)
        told = {name: value for name, value in fields.items() if name != "fact"}
        structlog.get_logger(_OWN).log(level, type(fact).__name__, **told)


def log_info(event: str, **fields: object) -> None:
    """Write one structured line about how things are."""
    structlog.get_logger(_OWN).info(event, **fields)


def log_error(event: str, **fields: object) -> None:
    """Write one structured error line."""
    structlog.get_logger(_OWN).error(event, **fields)


def logs_json() -> bool:
    """Whether this process logs for machines."""
    return _Style.now == "json"


class _Style:
    now = ""


def configure_logging(style: str, level: Level = "info") -> None:
    """Send everything to stderr: ``human`` for a terminal, ``json`` for machines."""
    _Style.now = style
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", key="ts"),
    ]
    renderer: list[Processor] = [
        _printable,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
    ]
    if style == "json":
        renderer = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
    handler = _ToStderr()
    handler.setFormatter(
        _Masking(
            foreign_pre_chain=[*shared, _name_of_logger, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # What libraries tell below a warning is for those who work on them.
    root.setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    logging.getLogger(_OWN).setLevel(level.upper())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    logging.captureWarnings(True)
    sys.excepthook = _log_crash
    threading.excepthook = lambda told: _log_crash(
        told.exc_type, told.exc_value, told.exc_traceback
    )


class _Masking(structlog.stdlib.ProcessorFormatter):
    """Formats lines without the passwords in URLs, whoever wrote them: libraries, tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return mask_urls(super().format(record))


class _ToStderr(logging.StreamHandler[TextIO]):
    """To stderr as it is at the moment: a view on a terminal puts something else in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        """A closed terminal, a dead pipe or a full disk must not end who only says something."""
        if not isinstance(sys.exception(), OSError) and not sys.stderr.closed:
            super().handleError(record)


def _name_of_logger(_: object, __: str, event: EventDict) -> EventDict:
    """Whose line it is, where it is not penstock's own."""
    event["logger"] = event["_record"].name
    return event


def _log_crash(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    """What nobody caught; asked for by Ctrl-C it is no crash."""
    if issubclass(kind, KeyboardInterrupt) or error is None:
        sys.__excepthook__(kind, error or kind(), trace)
        return
    structlog.get_logger(_OWN).critical("crashed", exc_info=(kind, error, trace))


def _printable(_: object, __: str, event: EventDict) -> EventDict:
    """What others wrote, without what would steer a terminal; a traceback keeps its lines."""
    for name, value in event.items():
        if name not in ("exception", "stack"):
            event[name] = printable(value) if isinstance(value, str) else value
    return event


def _to_json(value: object, **_: object) -> str:
    return printable_json(msgspec.json.encode(value, enc_hook=repr).decode())
