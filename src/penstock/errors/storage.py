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
            f"an id {shown} cannot be recorded: ids are not negative, nor longer than 255 bytes."
            " Whoever reads the exchange's messages should have refused it."
        )


class SlotInUse(PenstockError):
    """Another process writes this part of the log."""

    def __init__(self, slot: str, holder: str) -> None:
        self.slot, self.holder = slot, holder
        super().__init__(
            f"the log's slot {slot!r} is already being written by {holder}. Stop that process,"
            " or give this one a slot of its own with --slot NAME."
        )


class StorageError(PenstockError):
    """An operation of the log or the state store failed."""

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        self.where, self.problem = where, problem
        remedy = remedy or "Look at the disk and its permissions; nothing acknowledged is lost."
        super().__init__(f"{where}: {problem}. {remedy}")


class StorageFull(StorageError):
    """There is no space left."""

    def __init__(self, where: str, problem: str) -> None:
        remedy = "Make room. Nothing acknowledged is lost."
        super().__init__(where, problem, remedy)


class LogDamaged(StorageError):
    """Files of a slot are not as they were written: some of their records cannot be read."""

    def __init__(self, slot: str, where: str, problem: str, reading: str = "") -> None:
        self.slot, self.cause, self.reading = slot, problem, reading
        while_reading = f" (while reading {reading})" if reading else ""
        super().__init__(
            where,
            f"the log is damaged: {problem}{while_reading}",
            f"See what can be kept with: penstock log repair {slot} --dry-run",
        )


class StoreUnreachable(StorageError):
    """No answer from the database in time; the operation may have been executed, or not."""

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
    """Another document has the same key."""

    def __init__(self, table: str, existing_id: str) -> None:
        self.table, self.existing_id = table, existing_id
        super().__init__(f"{existing_id!r} of {table} is there already. Change or delete that one.")


class GapOverlaps(AlreadyExists):
    """Another job fetches part of the same range."""

    def __init__(
        self, table: str, existing_id: str, asked: tuple[int, int], theirs: tuple[int, int]
    ) -> None:
        super().__init__(table, existing_id)
        self.asked, self.theirs = asked, theirs
        self.args = (
            f"The range from {asked[0]} until {asked[1]} overlaps that of job {existing_id!r},"
            f" which still has to fetch {theirs[0]} until {theirs[1]}."
            " Ask for the rest alone, or delete that job.",
        )


class VersionChanged(PenstockError):
    """The document was changed since it was read."""

    def __init__(self, what: str, expected: int, found: int) -> None:
        self.what, self.expected, self.found = what, expected, found
        super().__init__(
            f"{what} is at version {found}, not {expected}: somebody changed it since."
            " Read it again, then decide. Nothing was changed."
        )
