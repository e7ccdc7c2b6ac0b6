"""Every error penstock raises on purpose.

PenstockError
├── ConfigError            a setting is missing, unknown or wrong: the operator can fix it
├── UnknownSymbol          nobody lists it under that name: fail at start, not at run
├── MalformedSymbol        not a spelling of any symbol: no exchange needs to be asked
├── UnknownInterval        not a candle length anybody here knows
├── MalformedLevels        price levels that are not pairs of plain decimal numbers
├── MissingExtra           a part that is installed apart is not there: install it
├── UnknownExchange        no folder speaks to an exchange of that name
├── UnknownChannel         the exchange does not offer that kind of data
├── UnknownStream          nothing of that name was recorded
├── BadLimit               a limit that cannot be: not above zero, named twice, on two clocks
├── BadCost                what a request is said to cost is no whole number above zero
├── UnknownCategory        nobody keeps limits under that name
├── NeverGranted           a refund for something that was not granted, or was given back before
├── CostExceedsLimit       one request costs more than a whole window: no wait is long enough
├── ExchangeError          the exchange answered, and the answer was no
│   ├── RateLimited        too fast, or the wait would be too long: ask again at ``retry_at_ms``
│   │   └── WaitTimedOut   no room within the caller's timeout (a TimeoutError too); nothing spent
│   ├── Banned             the exchange shut this address out until ``until_ms``: send nothing
│   └── BadRequest         asking the same again will not help
├── ExchangeUnreachable    no answer at all: back off and ask again
│   ├── NeverSent          it did not leave this machine: the cost is given back
│   └── NoAnswer           it may have arrived: the cost stays spent
├── UnexpectedAnswer       an answer that is not what the exchange's documentation says
├── NotOurRecord           stored or received bytes that are not a record this version can read
├── UnusableId             an exchange's id that cannot be a key of the log
├── PortInUse              another program listens there already
├── SlotInUse              another process writes this part of the log
├── AlreadyExists          another document, ``existing_id``, stands where this one would
├── VersionChanged         somebody changed it since it was read: read it again, then decide
├── UnknownConnector       nobody made a connector for that exchange
├── ConnectorPaused        somebody stopped all traffic with that exchange: nothing is sent
├── ConnectorInUse         it cannot be deleted while jobs live on it
├── BadJob                 what is asked of a job makes no sense; ``field`` says where
├── UnknownJob             no job has that id
├── JobRunning             it runs just now: pause it, and ask again
├── JobEnded               it is done or was deleted: create another
└── StorageError           the store could not do it: look at the disk
    ├── StorageFull        there is no room: make some, and go on
    ├── StoreUnreachable   no answer from the database in time: back off and ask again
    └── NewerStore         a newer penstock wrote it: upgrade this one

A message says what happened and what to do about it. Catch the widest class whose remedy is yours;
nothing else is caught.
"""

from collections.abc import Collection, Iterable
from difflib import get_close_matches


class PenstockError(Exception):
    """Something went wrong that a person can understand and mend."""


class ConfigError(PenstockError):
    """A setting is missing, unknown or wrong."""

    def __init__(self, name: str, *, problem: str, origin: str) -> None:
        self.name, self.problem, self.origin = name, problem, origin
        super().__init__(f"{name} (from {origin}): {problem}")


class UnknownSymbol(PenstockError):
    """Nobody lists this symbol."""

    def __init__(self, exchange: str, symbol: str, known: Iterable[str] = ()) -> None:
        self.exchange, self.symbol, self.near = exchange, symbol, near_matches(symbol, known)
        super().__init__(f"{exchange} does not list {symbol!r}.{_hint(self.near)}")


class MalformedSymbol(PenstockError):
    """Not a spelling of any symbol."""

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        super().__init__(f"{text!r} is not a symbol: {problem}. Write btc_usdt or BTC/USDT.")


class UnknownInterval(PenstockError):
    """Not a candle length anybody here knows."""

    def __init__(self, text: str, known: Collection[str]) -> None:
        self.text, self.near = text, near_matches(text, known)
        super().__init__(f"{text!r} is not a candle interval. Use one of: {' '.join(known)}.")


class MalformedLevels(PenstockError):
    """Price levels that are not pairs of plain decimal numbers."""


class MissingExtra(PenstockError):
    """A library is missing that is installed with one of penstock's extras."""

    def __init__(self, library: str, extra: str) -> None:
        self.library, self.extra = library, extra
        super().__init__(f"{library} is not installed. Run: pip install 'penstock[{extra}]'")


class UnknownExchange(PenstockError):
    """No folder speaks to an exchange of that name."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        self.name, self.near = name, near_matches(name, known)
        all_of_them = f"Known: {' '.join(sorted(known))}."
        super().__init__(f"There is no exchange {name!r} here.{_hint(self.near)} {all_of_them}")


class UnknownChannel(PenstockError):
    """The exchange does not offer that kind of data."""

    def __init__(self, exchange: str, channel: str, known: Iterable[str]) -> None:
        self.exchange, self.channel = exchange, channel
        super().__init__(f"{exchange} has no channel {channel!r}. It has: {' '.join(known)}.")


class UnknownStream(PenstockError):
    """Nothing of that name was recorded."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        hint = _hint(near_matches(name, known))
        super().__init__(f"No stream {name!r} was recorded.{hint} See: penstock log stats")


class BadLimit(PenstockError, ValueError):
    """A limit that cannot be kept, whatever is sent."""


class BadCost(PenstockError, ValueError):
    """A cost that is no whole number above zero."""

    def __init__(self, cost: object) -> None:
        self.cost = cost
        super().__init__(f"A request cannot cost {cost!r}: say a whole number, one or more.")


class UnknownCategory(PenstockError):
    """Nobody keeps limits under that name."""

    def __init__(self, category: str | None, known: Iterable[str | None]) -> None:
        self.category = category
        names = sorted("None" if name is None else repr(name) for name in known)
        super().__init__(f"There is no category {category!r}. Known: {', '.join(names)}.")


class NeverGranted(PenstockError, ValueError):
    """A refund for something that was not granted, or was given back before."""

    def __init__(self, timestamp: int, cost: int) -> None:
        self.timestamp, self.cost = timestamp, cost
        super().__init__(
            f"Nothing that costs {cost} was granted at {timestamp}, or it was given back before."
            " Refund with the timestamp and the cost of one consume, and once."
        )


class CostExceedsLimit(PenstockError):
    """One request costs more than a whole window allows."""

    def __init__(self, cost: int, limit: int, period_ms: int) -> None:
        self.cost, self.limit, self.period_ms = cost, limit, period_ms
        super().__init__(
            f"A request that costs {cost} never fits a limit of {limit} per {period_ms / 1000:g} s."
            " Ask for less at a time."
        )


class ExchangeError(PenstockError):
    """The exchange answered, and the answer was no; ``status`` is HTTP's, where there was one."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class RateLimited(ExchangeError):
    """Too fast, or the wait would be longer than anybody cares to wait."""

    def __init__(self, reason: str, *, retry_at_ms: int, status: int | None = None) -> None:
        self.retry_at_ms = retry_at_ms
        super().__init__(f"{reason}. Ask again at {retry_at_ms} (ms, UTC).", status=status)


class WaitTimedOut(RateLimited, TimeoutError):
    """No room came, or could come, within the time the caller would wait. Nothing was spent."""


class Banned(ExchangeError):
    """The exchange shut this address out."""

    def __init__(self, exchange: str, *, until_ms: int, status: int, words: str = "") -> None:
        self.until_ms = until_ms
        super().__init__(
            f"{exchange} shut this address out until {until_ms} (ms, UTC); nothing is sent before."
            f" It said: {words or 'nothing'}",
            status=status,
        )


class BadRequest(ExchangeError):
    """The exchange understood, and asking the same again will not help."""

    def __init__(self, request: str, *, status: int, code: int | str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(f"{request} was refused: {message} (code {code})", status=status)


class ExchangeUnreachable(PenstockError):
    """No answer at all."""


class NeverSent(ExchangeUnreachable):
    """It did not leave this machine."""


class NoAnswer(ExchangeUnreachable):
    """It may have arrived; nobody here knows."""


class UnexpectedAnswer(PenstockError):
    """An answer that is not what the exchange's documentation says."""


class NotOurRecord(PenstockError):
    """Bytes that are not a record this version can read."""


class PortInUse(PenstockError):
    """Another program listens on this address already."""

    def __init__(self, host: str, port: int, holder: str | None = None) -> None:
        self.host, self.port, self.holder = host, port, holder
        by = f" by {holder}" if holder else " by another program"
        super().__init__(
            f"{host}:{port} is already in use{by}. Stop it, or choose another port with --port"
            " (--port 0 takes any free one)."
        )


class UnusableId(PenstockError):
    """An exchange's id that cannot be a key of the log."""

    def __init__(self, number: int) -> None:
        self.number = number
        shown = str(number) if number.bit_length() < 256 else f"of {number.bit_length()} bits"
        super().__init__(
            f"an id {shown} cannot be recorded: ids are not negative, nor longer than 255 bytes."
            " Whoever reads the exchange's messages should have refused it."
        )


class SlotInUse(PenstockError):
    """Another process writes this part of the log."""

    def __init__(self, slot: str, holder: str) -> None:
        self.slot, self.holder = slot, holder
        super().__init__(
            f"the log's slot {slot!r} is already being written by {holder}. Stop that process,"
            " or give this one a slot of its own."
        )


class StorageError(PenstockError):
    """The store could not do what was asked."""

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        self.where, self.problem = where, problem
        remedy = remedy or "Look at the disk and its permissions; nothing acknowledged is lost."
        super().__init__(f"{where}: {problem}. {remedy}")


class StorageFull(StorageError):
    """There is no room left."""

    def __init__(self, where: str, problem: str) -> None:
        remedy = "Make room, then start again. Nothing acknowledged is lost."
        super().__init__(where, problem, remedy)


class StoreUnreachable(StorageError):
    """No answer from the database in time; what was asked may have been done, or not."""

    def __init__(self, where: str, problem: str) -> None:
        remedy = "Is it running, and is this its address? Nothing acknowledged is lost."
        super().__init__(where, problem, remedy)


class NewerStore(StorageError):
    """A newer penstock wrote this store."""

    def __init__(self, where: str, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            where,
            f"a newer penstock keeps its state here (version {found}; this one knows {known})",
            "Upgrade penstock, or give this one a store of its own. Nothing was changed.",
        )


class AlreadyExists(PenstockError):
    """Another document stands where this one would."""

    def __init__(self, table: str, existing_id: str) -> None:
        self.table, self.existing_id = table, existing_id
        super().__init__(f"{existing_id!r} of {table} is there already. Change or delete that one.")


class VersionChanged(PenstockError):
    """Somebody changed it since it was read."""

    def __init__(self, what: str, expected: int, found: int) -> None:
        self.what, self.expected, self.found = what, expected, found
        super().__init__(
            f"{what} is at version {found}, not {expected}: somebody changed it since."
            " Read it again, then decide. Nothing was changed."
        )


class UnknownConnector(PenstockError):
    """Nobody made a connector for that exchange."""

    def __init__(self, exchange_id: str, known: Iterable[str] = ()) -> None:
        self.exchange_id, self.known = exchange_id, sorted(known)
        there = f"There are: {', '.join(self.known)}" if self.known else "There is none yet"
        super().__init__(f"There is no connector for {exchange_id!r}. {there}. Add it first.")


class ConnectorPaused(PenstockError):
    """Somebody stopped all traffic with an exchange."""

    def __init__(self, exchange_id: str, status: str) -> None:
        self.exchange_id, self.status = exchange_id, status
        super().__init__(
            f"The connector of {exchange_id} is {status}: nothing is sent. Resume or add it again."
        )


class ConnectorInUse(PenstockError):
    """A connector on which jobs live."""

    def __init__(self, exchange_id: str, jobs: int) -> None:
        self.exchange_id, self.jobs = exchange_id, jobs
        super().__init__(
            f"{jobs} jobs live on the connector of {exchange_id}. Delete them first, or pause the"
            " connector instead. Nothing was changed."
        )


class BadJob(PenstockError):
    """What is asked of a job makes no sense."""

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem
        super().__init__(f"{field}: {problem}. Nothing was changed.")


class UnknownJob(PenstockError):
    """No job has that id."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"There is no job {job_id!r}. See: penstock jobs list")


class JobRunning(PenstockError):
    """A worker holds the job, and what it works on cannot change under its hands."""

    def __init__(self, job_id: str, worker: str) -> None:
        self.job_id, self.worker = job_id, worker
        super().__init__(
            f"Job {job_id!r} is being run by {worker}. Pause it, wait until it has stopped, and"
            " try again."
        )


class JobEnded(PenstockError):
    """The job is over; only its story is left."""

    def __init__(self, job_id: str, how: str) -> None:
        self.job_id, self.how = job_id, how
        super().__init__(
            f"Job {job_id!r} {how}. Create it anew to have it run again; what it brought is kept."
        )


def near_matches(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names a person who typed ``word`` probably meant, best first."""
    spellings = {_bare(name): name for name in known}
    return [spellings[key] for key in get_close_matches(_bare(word), spellings, most, 0.6)]


def _hint(near: list[str]) -> str:
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _bare(name: str) -> str:
    """A name without case and separators, so that BTC-USD finds btc_usdt."""
    return "".join(c for c in name.lower() if c.isalnum())
