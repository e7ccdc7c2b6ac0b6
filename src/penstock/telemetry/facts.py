"""Facts: everything a part of penstock may tell. How grave each is stands in ``logs``."""

from typing import ClassVar, Literal

from msgspec import Struct

Level = Literal["debug", "info", "warning", "error"]
"""How a fact is logged."""


class Fact(Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Something that happened. Subclasses say what."""

    level: ClassVar[Level] = "info"


class RequestRefused(Fact, frozen=True, kw_only=True):
    """An exchange (here: a simulated one) refused a request for its rate."""

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
    """The simulator did on purpose what exchanges do by accident."""

    exchange: str
    kind: str
    where: str


class RequestSent(Fact, frozen=True, kw_only=True):
    """An exchange was asked and answered, whatever it said."""

    exchange: str
    path: str
    cost: int
    status: int
    took_ms: int


class RequestFailed(Fact, frozen=True, kw_only=True):
    """A request brought no answer; ``sent`` says whether it may have reached the exchange."""

    exchange: str
    path: str
    cost: int
    sent: bool
    reason: str


class CapacityLow(Fact, frozen=True, kw_only=True):
    """Half of what an exchange allows in a window is used. Told once per crossing."""

    exchange: str
    timeframe: str
    remaining: int


class SendingStopped(Fact, frozen=True, kw_only=True):
    """An exchange said stop: nothing is sent to it before ``until_ms``.

    ``asked_ms`` is until when it asked for, which may be longer than is believed.
    """

    exchange: str
    path: str
    status: int
    until_ms: int
    asked_ms: int
    words: str = ""


class BudgetUnreachable(Fact, frozen=True, kw_only=True):
    """The store of the fleet's budget does not answer: nothing is sent until it does. Told once."""

    exchange: str
    reason: str


class BudgetReachable(Fact, frozen=True, kw_only=True):
    """The store of the fleet's budget answers again."""

    exchange: str


class ClockStepped(Fact, frozen=True, kw_only=True):
    """A clock by which requests are counted was set; told once two answers agree."""

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
    """A stream connection to an exchange stands."""

    exchange: str
    url: str


class ConnectionLost(Fact, frozen=True, kw_only=True):
    """A stream connection ended, or could not be opened; it is tried again."""

    exchange: str
    reason: str


class SnapshotFailed(Fact, frozen=True, kw_only=True):
    """A book could not be had; it is asked for again."""

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
    """An exchange does not answer; it is asked again until it does."""

    exchange: str
    reason: str


class StatusUnreadable(Fact, frozen=True, kw_only=True):
    """What a collector's predecessor said of itself is damaged; the log itself is asked instead."""

    slot: str
    reason: str


class StatusUnwritable(Fact, frozen=True, kw_only=True):
    """A collector's status could not be written; collecting goes on, and so does trying."""

    slot: str
    reason: str


class RequestServed(Fact, frozen=True, kw_only=True):
    """The API answered somebody."""

    method: str
    path: str
    status: int
    took_ms: int


class LoginFailed(Fact, frozen=True, kw_only=True):
    """Somebody sent the API a wrong token, so many times in a row from this address."""

    client: str
    times: int


class RequestCrashed(Fact, frozen=True, kw_only=True):
    """The API failed in a way nobody foresaw; its client was told this ``id`` and no more."""

    id: str
    method: str
    path: str
    error: str


class ListenerFailed(Fact, frozen=True, kw_only=True):
    """Somebody who was handed records raised; the records are safe, and the others got theirs."""

    listener: str
    error: str


class JobDone(Fact, frozen=True, kw_only=True):
    """A run of a job ended well; ``ended``: it was its last."""

    job: str
    kind: str
    exchange: str
    rows: int
    ended: bool


class JobFailed(Fact, frozen=True, kw_only=True):
    """A run of a job failed; it is tried again, unless it is given up."""

    job: str
    kind: str
    exchange: str
    reason: str
    given_up: bool


class JobWaits(Fact, frozen=True, kw_only=True):
    """A job found no budget and waits for some, so many milliseconds at least."""

    job: str
    exchange: str
    wait_ms: int
    reason: str


class JobParked(Fact, frozen=True, kw_only=True):
    """A worker let go of a job in the middle; any worker may go on with it."""

    job: str
    exchange: str
    reason: str


class JobLost(Fact, frozen=True, kw_only=True):
    """A worker no longer holds a job it was at; what it had saved is kept."""

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
    """The state store does not answer: no job is begun until it does. Told once."""

    reason: str


class StoreAnswers(Fact, frozen=True, kw_only=True):
    """The state store answers again."""


class BookDrifted(Fact, frozen=True, kw_only=True):
    """A book that was believed differs from the exchange's in so many levels."""

    exchange: str
    symbol: str
    levels: int


class MessagesDropped(Fact, frozen=True, kw_only=True):
    """The bus did not take so many messages since this was last told; the log has them."""

    slot: str
    count: int


class BusFell(Fact, frozen=True, kw_only=True):
    """Subscribers did not keep up since this was last told; the log has what they missed."""

    overflows: int
    """How often one's queue was found full."""
    missed: int
    """Messages that they say they missed."""


class BusRefused(Fact, frozen=True, kw_only=True):
    """The broker refused or closed connections since this was last told."""

    count: int
    why: str
    """For the last one of them."""


class StreamSuspected(Fact, frozen=True, kw_only=True):
    """A stream is silent for longer than is usual for it: the market is probed. Once a silence."""

    exchange: str
    channel: str
    symbol: str
    silent_s: float


class StreamProbed(Fact, frozen=True, kw_only=True):
    """Whether a silent stream had something to say: ``nothing``, ``news``, or it is not known."""

    exchange: str
    channel: str
    symbol: str
    found: Literal["nothing", "news", "failed"]


class StreamStalled(Fact, frozen=True, kw_only=True):
    """A stream does not bring what happens on its market, and what is done about it."""

    exchange: str
    channel: str
    symbol: str
    remedy: Literal["asked_anew", "rotated"]


class StreamRecovered(Fact, frozen=True, kw_only=True):
    """A stream that was stalled brings something again."""

    exchange: str
    channel: str
    symbol: str


class ConnectionClosed(Fact, frozen=True, kw_only=True):
    """A stream connection is being closed on purpose: another has taken over, or it is no use."""

    exchange: str
    reason: str


class FetchDone(Fact, frozen=True, kw_only=True):
    """A fetcher asked for something and recorded what was new."""

    exchange: str
    what: str
    symbol: str
    records: int
    at_ms: int


class FetchFailed(Fact, frozen=True, kw_only=True):
    """A fetcher could not have something; it asks again after the delay."""

    exchange: str
    what: str
    symbol: str
    reason: str
    delay_s: float


class FetchFellShort(Fact, frozen=True, kw_only=True):
    """So many trades were missed that those between these two were left out."""

    exchange: str
    symbol: str
    after_id: int
    before_id: int


class SymbolsReread(Fact, frozen=True, kw_only=True):
    """A collector was told anew what to collect; if that was ``refused``, it goes on as before."""

    exchange: str
    refused: str
