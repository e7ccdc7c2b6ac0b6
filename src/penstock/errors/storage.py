"""Errors of the log and the state store."""

from penstock.errors.base import PenstockError


class NotOurRecord(PenstockError):
    """Bytes that are not a record this version can read."""


class UnusableId(PenstockError):
    """An exchange's id that cannot be a key of the log."""

    def __init__(self, number: int) -> None:
        self.number = number
        shown = str(number) if number.bit_length() < 256 else f"of {number.bit_length()} bits"
        super().__init__(
            f"The id {shown} cannot be recorded: ids must not be negative or longer than 255 bytes."
            " The code that decodes the exchange's messages should have rejected it: report a bug."
        )


class SlotInUse(PenstockError):
    """Another process writes this slot of the log."""

    def __init__(self, slot: str, holder: str, *, briefly: bool = False) -> None:
        self.slot, self.holder = slot, holder
        self.briefly = briefly
        """Whether the holder releases it soon."""
        super().__init__(
            f"The log's slot {slot!r} is already being written by {holder}. Stop that process,"
            " or run this one with another slot: --slot NAME."
        )


class StorageError(PenstockError):
    """An operation of the log or the state store failed."""

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        self.where, self.problem = where, problem
        remedy = remedy or "Check the disk and its permissions. No acknowledged data is lost."
        super().__init__(f"{where}: {problem}. {remedy}")


class StorageFull(StorageError):
    """There is no space left."""

    def __init__(self, where: str, problem: str) -> None:
        remedy = "Free some space. No acknowledged data is lost."
        super().__init__(where, problem, remedy)


class LogDamaged(StorageError):
    """Files of a slot are not as they were written: some of their records cannot be read."""

    def __init__(self, slot: str, where: str, problem: str, reading: str = "") -> None:
        self.slot, self.cause, self.reading = slot, problem, reading
        while_reading = f" (while reading {reading})" if reading else ""
        super().__init__(
            where,
            f"the log is damaged: {problem}{while_reading}",
            f"List what can be recovered with: penstock log repair {slot} --dry-run",
        )


class StoreUnreachable(StorageError):
    """No answer from the database in time; the operation may have been executed, or not."""

    def __init__(self, where: str, problem: str) -> None:
        remedy = "Check that it is running, and its address. No acknowledged data is lost."
        super().__init__(where, problem, remedy)


class LoginRejected(StorageError):
    """The database does not accept the name or the password, or the user may not do this."""

    def __init__(self, where: str, problem: str) -> None:
        remedy = "Check the name and the password in its URL, and what the user may do."
        super().__init__(where, f"the server rejected this user: {problem}", remedy)


class NewerStore(StorageError):
    """A newer penstock wrote this store."""

    def __init__(self, where: str, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            where,
            f"a newer penstock wrote this store (version {found}; this one supports {known})",
            "Upgrade penstock, or use another store. Nothing was changed.",
        )


class AlreadyExists(PenstockError):
    """Another document has the same key."""

    def __init__(self, table: str, existing_id: str) -> None:
        self.table, self.existing_id = table, existing_id
        super().__init__(f"{existing_id!r} in {table} has the same key. Change or delete it.")


class GapOverlaps(AlreadyExists):
    """Another job fetches part of the same range."""

    def __init__(
        self, table: str, existing_id: str, asked: tuple[int, int], theirs: tuple[int, int]
    ) -> None:
        super().__init__(table, existing_id)
        self.asked, self.theirs = asked, theirs
        self.args = (
            f"The range from {asked[0]} to {asked[1]} overlaps that of job {existing_id!r},"
            f" which still has to fetch {theirs[0]} to {theirs[1]}."
            " Choose a range that does not overlap, or delete that job.",
        )


class VersionChanged(PenstockError):
    """The document was changed after it was read."""

    def __init__(self, what: str, expected: int, found: int) -> None:
        self.what, self.expected, self.found = what, expected, found
        super().__init__(
            f"{what} is at version {found}, not {expected}: it was changed after it was read."
            " This change was not made. Read it again and retry."
        )


class SealConflict(PenstockError):
    """A range of a seal does not begin where the last sealed range ended."""

    def __init__(self, stream: str, slot: str, first: int, sealed: int) -> None:
        self.stream, self.slot, self.first, self.sealed = stream, slot, first, sealed
        super().__init__(
            f"{stream} of slot {slot} is sealed up to number {sealed}, so a range that begins with"
            f" {first} cannot be sealed: another keeper sealed it meanwhile, or a range is missing."
            " Nothing was written."
        )
