"""Every error penstock raises on purpose.

PenstockError
├── ConfigError            a setting is missing, unknown or wrong: the operator can fix it
├── UnknownSymbol          nobody lists it under that name: fail at start, not at run
├── MalformedSymbol        not a spelling of any symbol: no exchange needs to be asked
├── UnknownInterval        not a candle length anybody here knows
├── UnknownMethod          a client has no method of that name
├── MalformedLevels        price levels that are not pairs of plain decimal numbers
├── MissingExtra           a part that is installed apart is not there: install it
├── UnknownExchange        no folder speaks to an exchange of that name
├── UnknownChannel         the exchange does not offer that kind of data
├── NotCollected           a data folder has nothing of that exchange or market
├── UnknownStream          nothing of that name was recorded
├── UnknownSlot            the log has no slot of that name
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
├── BusUnreachable         no bus answers there: start it
├── AlreadyExists          another document, ``existing_id``, stands where this one would
│   └── GapOverlaps        another job fetches a part of the same range
├── VersionChanged         somebody changed it since it was read: read it again, then decide
├── UnknownConnector       nobody made a connector for that exchange
├── ConnectorPaused        somebody stopped all traffic with that exchange: nothing is sent
├── ConnectorInUse         it cannot be deleted while jobs live on it
├── BadJob                 what is asked of a job makes no sense; ``field`` says where
├── UnknownJob             no job has that id
├── JobRunning             it runs just now: pause it, and ask again
├── JobEnded               it is done or was deleted: create another
├── NotStreaming           the collector has not begun, or has ended: try again later
└── StorageError           the store could not do it: look at the disk
    ├── StorageFull        there is no room: make some, and go on
    ├── LogDamaged         files of the log are not as they were written: repair it
    ├── StoreUnreachable   no answer from the database in time: back off and ask again
    └── NewerStore         a newer penstock wrote it: upgrade this one

A message says what happened and what to do about it. Catch the widest class whose remedy is yours;
nothing else is caught.
"""

from penstock.errors.answers import (
    BadRequest,
    Banned,
    ExchangeError,
    ExchangeUnreachable,
    NeverSent,
    NoAnswer,
    RateLimited,
    UnexpectedAnswer,
    WaitTimedOut,
)
from penstock.errors.asking import SUSPENDED, UNAVAILABLE
from penstock.errors.base import (
    BusUnreachable,
    ConfigError,
    MissingExtra,
    PenstockError,
    PortInUse,
    mask_urls,
    near_matches,
)
from penstock.errors.limits import (
    BadCost,
    BadLimit,
    CostExceedsLimit,
    NeverGranted,
    UnknownCategory,
)
from penstock.errors.naming import (
    MalformedLevels,
    MalformedSymbol,
    NotCollected,
    UnknownChannel,
    UnknownExchange,
    UnknownInterval,
    UnknownMethod,
    UnknownSlot,
    UnknownStream,
    UnknownSymbol,
)
from penstock.errors.storage import (
    AlreadyExists,
    GapOverlaps,
    LogDamaged,
    NewerStore,
    NotOurRecord,
    SlotInUse,
    StorageError,
    StorageFull,
    StoreUnreachable,
    UnusableId,
    VersionChanged,
)
from penstock.errors.work import (
    BadJob,
    ConnectorInUse,
    ConnectorPaused,
    JobEnded,
    JobRunning,
    NotStreaming,
    UnknownConnector,
    UnknownJob,
)

__all__ = [
    "SUSPENDED",
    "UNAVAILABLE",
    "AlreadyExists",
    "BadCost",
    "BadJob",
    "BadLimit",
    "BadRequest",
    "Banned",
    "BusUnreachable",
    "ConfigError",
    "ConnectorInUse",
    "ConnectorPaused",
    "CostExceedsLimit",
    "ExchangeError",
    "ExchangeUnreachable",
    "GapOverlaps",
    "JobEnded",
    "JobRunning",
    "LogDamaged",
    "MalformedLevels",
    "MalformedSymbol",
    "MissingExtra",
    "NeverGranted",
    "NeverSent",
    "NewerStore",
    "NoAnswer",
    "NotCollected",
    "NotOurRecord",
    "NotStreaming",
    "PenstockError",
    "PortInUse",
    "RateLimited",
    "SlotInUse",
    "StorageError",
    "StorageFull",
    "StoreUnreachable",
    "UnexpectedAnswer",
    "UnknownCategory",
    "UnknownChannel",
    "UnknownConnector",
    "UnknownExchange",
    "UnknownInterval",
    "UnknownJob",
    "UnknownMethod",
    "UnknownSlot",
    "UnknownStream",
    "UnknownSymbol",
    "UnusableId",
    "VersionChanged",
    "WaitTimedOut",
    "mask_urls",
    "near_matches",
]
