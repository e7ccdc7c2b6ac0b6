"""All errors that penstock raises deliberately.

PenstockError
├── ConfigError            a setting is missing, unknown or wrong: the operator can fix it
├── UnknownSymbol          the exchange does not list it: fail at start, not at run
├── MalformedSymbol        not a spelling of any symbol: no exchange needs to be queried
├── UnknownInterval        not a supported candle length
├── UnknownMethod          a client has no method of that name
├── MalformedLevels        price levels that are not pairs of plain decimal numbers
├── MissingExtra           an optional library is not installed: install it
├── UnknownExchange        no exchange of that name is supported
├── UnknownChannel         the exchange does not offer that kind of data
├── NotCollected           a data folder has no data of that exchange or market
├── UnknownStream          nothing of that name was recorded
├── NoData                 nothing was recorded of what is asked for
├── BadSpeed               the speed of a replay is not a number above zero
├── UnknownSlot            the log has no slot of that name
├── NoDataset              there is no data folder and no lake at that place
├── BadTime                not a time, or an empty range of time
├── BadQuery               a query that cannot be answered as it is written
├── TooManyMarkets         more markets are shown than the server follows: retry later
├── GapError               data of the range that was read is missing
├── BadLimit               an invalid limit: not above zero, named twice, on two clocks
├── BadCost                the cost of a request is not a whole number above zero
├── UnknownCategory        no limits have that name
├── NeverGranted           a refund without a grant, or of a grant that was refunded before
├── CostExceedsLimit       one request costs more than a whole window: no wait is long enough
├── ExchangeError          the exchange rejected the request
│   ├── RateLimited        too fast, or the wait would be too long: retry at ``retry_at_ms``
│   │   └── WaitTimedOut   no tokens within the caller's timeout (a TimeoutError too); none used
│   ├── CircuitOpen        it failed too often: nothing is sent before ``retry_at_ms``
│   ├── Banned             the exchange banned this address until ``until_ms``: send nothing
│   └── BadRequest         a retry of the same request will not help
├── ExchangeUnreachable    no answer at all: back off and retry
│   ├── NeverSent          it did not leave this machine: its tokens are returned
│   └── NoAnswer           it may have arrived: its tokens stay used
├── UnexpectedAnswer       an answer that does not match the exchange's documentation
├── BadFile                a published file is damaged or another one: replace or remove it
├── NotOurRecord           stored or received bytes that are not a record this version can read
├── UnusableId             an exchange's id that cannot be a key of the log
├── RcloneMissing          rclone cannot be started, or is too old: install it
├── RemoteError            the remote of the backups does not answer, or rejects what is asked
│   └── RemoteStalled      rclone made no progress, and was killed: retry later
├── SyncRunning            another process synchronizes the backups: wait for it
├── PortInUse              another program listens on that port already
├── SlotInUse              another process writes this slot of the log
├── BusUnreachable         no bus answers there: start it
├── AlreadyExists          another document, ``existing_id``, has the same key
│   └── GapOverlaps        another job fetches part of the same range
├── SealConflict           another keeper sealed part of a range: read what is sealed and retry
├── VersionChanged         it was changed after it was read: read it again and retry
├── UnknownConnector       there is no connector for that exchange
├── ConnectorPaused        the connector is paused: nothing is sent to that exchange
├── ConnectorInUse         it cannot be deleted while it has live jobs
├── BadJob                 a job, or a change of one, is invalid; ``field`` is the invalid field
├── UnknownJob             no job has that id
├── UnknownKind            a newer version created the job: use that one
├── JobRunning             it is running: pause it, and retry
├── ProductLocked          another job run fetches that market: wait until it has ended
├── NotLocked              nobody holds that lock
├── LockLost               another took the lock meanwhile: stop, and retry
├── UnknownGap             the ledger has no gap of that id
├── GapNotFillable         no job can fill the gap; ``reason`` says why
├── JobEnded               it has finished or was deleted: create another
├── UnfinishedJob          a product is being fetched for another range: continue or delete that job
├── BadTick                what should be stored as a tick is none
├── BadSymbol              what should be a symbol of an exchange is none
├── BadProcess             a process cannot be registered as it is described; ``field`` says why
├── UnknownProcess         no process with that id is registered: register it again
├── NotStreaming           the collector has not started, or has stopped: retry later
├── SupervisorRunning      another supervisor runs on that data folder
├── NoSupervisor           no supervisor runs on that data folder: start it
├── NotSupervised          the supervisor has no process of that name
├── BackupRunning          another backup of the store, or into the folder, is being made: wait
├── NoBackup               there is no such backup, or no folder for backups is set
├── BadBackup              an archive is damaged, or penstock did not make it: use another
├── FolderNotEmpty         a backup is restored into an empty or a new folder only
└── StorageError           the storage operation failed: check the disk
    ├── StorageFull        no space is left: free some
    ├── LogDamaged         files of the log are not as they were written: repair it
    ├── StoreUnreachable   no answer from the database in time: back off and retry
    ├── LoginRejected      the database rejected name or password: correct its URL
    └── NewerStore         a newer penstock wrote it: upgrade this one

Messages state what happened and what to do about it. Catch the widest class that the caller can
handle, and nothing else.
"""

from penstock.errors.answers import (
    BadFile,
    BadRequest,
    Banned,
    CircuitOpen,
    ExchangeError,
    ExchangeUnreachable,
    NeverSent,
    NoAnswer,
    RateLimited,
    UnexpectedAnswer,
    WaitTimedOut,
)
from penstock.errors.asking import SUSPENDED, TEMPORARY, UNAVAILABLE, is_failure, may_pass
from penstock.errors.backup import BackupRunning, BadBackup, FolderNotEmpty, NoBackup
from penstock.errors.base import (
    BusUnreachable,
    ConfigError,
    MissingExtra,
    PenstockError,
    PortInUse,
    hint,
    near_matches,
)
from penstock.errors.limits import (
    BadCost,
    BadLimit,
    CostExceedsLimit,
    NeverGranted,
    UnknownCategory,
)
from penstock.errors.live import BadProcess, BadSymbol, BadTick, UnknownProcess
from penstock.errors.masking import hide, mask_urls, password_in
from penstock.errors.naming import (
    BadSpeed,
    MalformedLevels,
    MalformedSymbol,
    NoData,
    NotCollected,
    UnknownChannel,
    UnknownExchange,
    UnknownInterval,
    UnknownMethod,
    UnknownSlot,
    UnknownStream,
    UnknownSymbol,
)
from penstock.errors.reading import BadQuery, BadTime, GapError, NoDataset, TooManyMarkets
from penstock.errors.remote import RcloneMissing, RemoteError, RemoteStalled, SyncRunning
from penstock.errors.storage import (
    AlreadyExists,
    GapOverlaps,
    LogDamaged,
    LoginRejected,
    NewerStore,
    NotOurRecord,
    SealConflict,
    SlotInUse,
    StorageError,
    StorageFull,
    StoreUnreachable,
    UnusableId,
    VersionChanged,
)
from penstock.errors.supervising import NoSupervisor, NotSupervised, SupervisorRunning
from penstock.errors.work import (
    BadJob,
    ConnectorInUse,
    ConnectorPaused,
    GapNotFillable,
    JobEnded,
    JobRunning,
    LockLost,
    NotLocked,
    NotStreaming,
    ProductLocked,
    UnfinishedJob,
    UnknownConnector,
    UnknownGap,
    UnknownJob,
    UnknownKind,
)

__all__ = [
    "SUSPENDED",
    "TEMPORARY",
    "UNAVAILABLE",
    "AlreadyExists",
    "BackupRunning",
    "BadBackup",
    "BadCost",
    "BadFile",
    "BadJob",
    "BadLimit",
    "BadProcess",
    "BadQuery",
    "BadRequest",
    "BadSpeed",
    "BadSymbol",
    "BadTick",
    "BadTime",
    "Banned",
    "BusUnreachable",
    "CircuitOpen",
    "ConfigError",
    "ConnectorInUse",
    "ConnectorPaused",
    "CostExceedsLimit",
    "ExchangeError",
    "ExchangeUnreachable",
    "FolderNotEmpty",
    "GapError",
    "GapNotFillable",
    "GapOverlaps",
    "JobEnded",
    "JobRunning",
    "LockLost",
    "LogDamaged",
    "LoginRejected",
    "MalformedLevels",
    "MalformedSymbol",
    "MissingExtra",
    "NeverGranted",
    "NeverSent",
    "NewerStore",
    "NoAnswer",
    "NoBackup",
    "NoData",
    "NoDataset",
    "NoSupervisor",
    "NotCollected",
    "NotLocked",
    "NotOurRecord",
    "NotStreaming",
    "NotSupervised",
    "PenstockError",
    "PortInUse",
    "ProductLocked",
    "RateLimited",
    "RcloneMissing",
    "RemoteError",
    "RemoteStalled",
    "SealConflict",
    "SlotInUse",
    "StorageError",
    "StorageFull",
    "StoreUnreachable",
    "SupervisorRunning",
    "SyncRunning",
    "TooManyMarkets",
    "UnexpectedAnswer",
    "UnfinishedJob",
    "UnknownCategory",
    "UnknownChannel",
    "UnknownConnector",
    "UnknownExchange",
    "UnknownGap",
    "UnknownInterval",
    "UnknownJob",
    "UnknownKind",
    "UnknownMethod",
    "UnknownProcess",
    "UnknownSlot",
    "UnknownStream",
    "UnknownSymbol",
    "UnusableId",
    "VersionChanged",
    "WaitTimedOut",
    "hide",
    "hint",
    "is_failure",
    "mask_urls",
    "may_pass",
    "near_matches",
    "password_in",
]
