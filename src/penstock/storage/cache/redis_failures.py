"""Errors of the Redis client, in penstock's terms."""

from redis import exceptions as theirs

from penstock.errors import LoginRejected, StorageError, StorageFull, StoreUnreachable

_LONGEST = 300
# Servers before Redis 7 report it as an error of the script, with this text in it.
_NO_MEMORY = "-OOM command not allowed"


def as_storage_error(where: str, error: theirs.RedisError) -> StorageError:
    """The error to raise for one of the client. Its message never has the password."""
    text = str(error).strip().rstrip(".")[:_LONGEST] or type(error).__name__
    match error:
        case (
            theirs.AuthenticationError()
            | theirs.AuthenticationWrongNumberOfArgsError()
            | theirs.AuthorizationError()
            | theirs.NoPermissionError()
        ):
            return LoginRejected(where, text)
        case theirs.ReadOnlyError():
            return StoreUnreachable(where, "is a replica that cannot be written")
        case theirs.TimeoutError():
            return StoreUnreachable(where, "gave no answer in time")
        case theirs.ConnectionError() | theirs.ClusterDownError() | theirs.RedisClusterException():
            return StoreUnreachable(where, text)
        case _ if isinstance(error, theirs.OutOfMemoryError) or _NO_MEMORY in str(error):
            return StorageFull(where, "Redis has reached its maxmemory")
        case _:
            return StorageError(where, text, "Check the server and its log.")
