"""Facts: everything a part of penstock may tell. How grave each is stands in ``logs``."""

from typing import ClassVar, Literal

from msgspec import Struct

Level = Literal["debug", "info", "warning", "error"]
"""How a fact is logged."""


class Fact(Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Something that happened. Subclasses say what."""

    level: ClassVar[Level] = "info"


class RequestRefused(Fact, frozen=True, kw_only=True):
    """A simulated exchange rejected a request because of its rate limit."""

    exchange: str
    path: str
    status: int
    used: int
    limit: int


class ClientConnected(Fact, frozen=True, kw_only=True):
    """A client opened a stream connection to the simulator."""

    exchange: str
    connection: int
    path: str


class ClientGone(Fact, frozen=True, kw_only=True):
    """A stream connection to the simulator ended, and why."""

    exchange: str
    connection: int
    reason: str


class FaultInjected(Fact, frozen=True, kw_only=True):
    """The simulator injected a fault."""

    exchange: str
    kind: str
    where: str


class RequestSent(Fact, frozen=True, kw_only=True):
    """A request was sent to an exchange and answered, with any status."""

    exchange: str
    path: str
    cost: int
    status: int
    took_ms: int


class RequestFailed(Fact, frozen=True, kw_only=True):
    """A request got no answer; ``sent`` is true if it may have reached the exchange."""

    exchange: str
    path: str
    cost: int
    sent: bool
    reason: str


class CapacityLow(Fact, frozen=True, kw_only=True):
    """Half of a rate limit's window is used. Logged once per crossing."""

    exchange: str
    timeframe: str
    remaining: int


class SendingStopped(Fact, frozen=True, kw_only=True):
    """An exchange ordered a stop (429 or a ban): nothing is sent to it before ``until_ms``.

    ``asked_ms`` is the end that it asked for, which may exceed ``requests.longest_stop``.
    """

    exchange: str
    path: str
    status: int
    until_ms: int
    asked_ms: int
    words: str = ""


class BudgetUnreachable(Fact, frozen=True, kw_only=True):
    """The store of the shared budget does not answer; nothing is sent meanwhile. Logged once."""

    exchange: str
    reason: str


class BudgetReachable(Fact, frozen=True, kw_only=True):
    """The store of the shared budget answers again."""

    exchange: str


class ClockStepped(Fact, frozen=True, kw_only=True):
    """A clock used for rate limits was stepped; logged once two answers agree."""

    level: ClassVar[Level] = "warning"

    exchange: str
    clock: Literal["exchange", "store"]
    """Whose clock it is."""
    by_ms: int
    """How far it was set, ahead if above zero."""


class MarketsChanged(Fact, frozen=True, kw_only=True):
    """An exchange lists symbols it did not list before, or no longer lists some."""

    exchange: str
    listed: tuple[str, ...]
    delisted: tuple[str, ...]


class ConnectionOpened(Fact, frozen=True, kw_only=True):
    """A stream connection to an exchange was opened."""

    exchange: str
    url: str


class ConnectionLost(Fact, frozen=True, kw_only=True):
    """A stream connection ended or could not be opened; it is retried."""

    exchange: str
    reason: str


class SnapshotFailed(Fact, frozen=True, kw_only=True):
    """A book snapshot could not be fetched; it is retried."""

    exchange: str
    symbol: str
    reason: str


class GapFound(Fact, frozen=True, kw_only=True):
    """Ids that must exist were not received."""

    exchange: str
    channel: str
    symbol: str
    first: int
    last: int


class ExchangeSilent(Fact, frozen=True, kw_only=True):
    """An exchange does not answer; the request is retried until it does."""

    exchange: str
    reason: str


class StatusUnreadable(Fact, frozen=True, kw_only=True):
    """The status file of a collector's earlier run is damaged; the log is read instead."""

    slot: str
    reason: str


class StatusUnwritable(Fact, frozen=True, kw_only=True):
    """A collector's status could not be written; it is retried, and collecting continues."""

    slot: str
    reason: str


class RequestServed(Fact, frozen=True, kw_only=True):
    """The API answered a request."""

    method: str
    path: str
    status: int
    took_ms: int


class LoginFailed(Fact, frozen=True, kw_only=True):
    """A client sent the API a wrong token, ``times`` times in a row from this address."""

    client: str
    times: int


class RequestCrashed(Fact, frozen=True, kw_only=True):
    """The API failed with an unexpected error; the client received only this ``id``."""

    id: str
    method: str
    path: str
    error: str


class ListenerFailed(Fact, frozen=True, kw_only=True):
    """A listener for new records raised; the records are stored, other listeners received them."""

    listener: str
    error: str


class JobDone(Fact, frozen=True, kw_only=True):
    """A run of a job succeeded; ``ended`` is true if it was the last."""

    job: str
    kind: str
    exchange: str
    rows: int
    ended: bool


class JobFailed(Fact, frozen=True, kw_only=True):
    """A run of a job failed; it is retried unless its attempts are used up."""

    job: str
    kind: str
    exchange: str
    reason: str
    given_up: bool


class JobWaits(Fact, frozen=True, kw_only=True):
    """A job waits for capacity in the rate limits, for at least the given milliseconds."""

    job: str
    exchange: str
    wait_ms: int
    reason: str


class JobParked(Fact, frozen=True, kw_only=True):
    """A worker released an unfinished job; any worker may continue it."""

    job: str
    exchange: str
    reason: str


class JobLost(Fact, frozen=True, kw_only=True):
    """A worker lost its lease on a running job; the saved progress is kept."""

    job: str
    exchange: str
    reason: str


class CandlesMissing(Fact, frozen=True, kw_only=True):
    """Candles that the log should hold are missing; a job was created that fetches them."""

    exchange: str
    symbol: str
    interval: str
    since: str
    until: str
    job: str


class StoreSilent(Fact, frozen=True, kw_only=True):
    """The state store does not answer; no job is started until it does. Logged once."""

    reason: str


class StoreAnswers(Fact, frozen=True, kw_only=True):
    """The state store answers again."""


class BookDrifted(Fact, frozen=True, kw_only=True):
    """A synced book differs from the exchange's snapshot in ``levels`` levels."""

    exchange: str
    symbol: str
    levels: int


class MessagesDropped(Fact, frozen=True, kw_only=True):
    """The bus dropped ``count`` messages since this was last logged; the log has them."""

    slot: str
    count: int


class BusFell(Fact, frozen=True, kw_only=True):
    """Subscribers did not keep up since this was last logged; the log has what they missed."""

    overflows: int
    """How often one's queue was found full."""
    missed: int
    """Messages that they say they missed."""


class BusRefused(Fact, frozen=True, kw_only=True):
    """The broker refused or closed connections since this was last logged."""

    count: int
    why: str
    """For the last one of them."""


class StreamSuspected(Fact, frozen=True, kw_only=True):
    """A stream is silent for longer than usual; its market is probed. Logged once per silence."""

    exchange: str
    channel: str
    symbol: str
    silent_s: float


class StreamProbed(Fact, frozen=True, kw_only=True):
    """The result of probing a silent stream's market: ``nothing``, ``news``, or unknown."""

    exchange: str
    channel: str
    symbol: str
    found: Literal["nothing", "news", "failed"]


class StreamStalled(Fact, frozen=True, kw_only=True):
    """A stream delivers nothing although its market changes; ``remedy`` is the action taken."""

    exchange: str
    channel: str
    symbol: str
    remedy: Literal["asked_anew", "rotated"]


class StreamRecovered(Fact, frozen=True, kw_only=True):
    """A stalled stream delivers messages again."""

    exchange: str
    channel: str
    symbol: str


class ConnectionClosed(Fact, frozen=True, kw_only=True):
    """A stream connection is closed on purpose: it was replaced or is no longer needed."""

    exchange: str
    reason: str


class FetchDone(Fact, frozen=True, kw_only=True):
    """A fetch succeeded; new records were written."""

    exchange: str
    what: str
    symbol: str
    records: int
    at_ms: int


class FetchFailed(Fact, frozen=True, kw_only=True):
    """A fetch failed; it is retried after the delay."""

    exchange: str
    what: str
    symbol: str
    reason: str
    delay_s: float


class FetchFellShort(Fact, frozen=True, kw_only=True):
    """Too many trades were missed to fetch them all; those between these two were skipped."""

    exchange: str
    symbol: str
    after_id: int
    before_id: int


class SymbolsReread(Fact, frozen=True, kw_only=True):
    """A collector reloaded its list of markets; if ``refused``, it keeps the previous one."""

    exchange: str
    refused: str
