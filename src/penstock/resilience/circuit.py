"""What a sender of requests needs of a circuit breaker."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class CircuitBreaker(Protocol):
    """Stops requests to an exchange that fails."""

    async def check(self) -> None:
        """Check whether a request may be sent soon. Nothing is reserved.

        Raises:
            CircuitOpen: it may not.
        """
        ...

    async def admit(self) -> AbstractContextManager[None]:
        """Admit one request, to be sent within the context that is returned.

        How the context is left is the result of the request. A lost connection and an error of the
        exchange are failures. Anything else that is raised is neither failure nor success: the
        exchange answered, or was not reached for another reason.

        Raises:
            CircuitOpen: it must not be sent.
        """
        ...

    async def aclose(self) -> None:
        """Write pending results, within a short time."""
        ...


class NoBreaker:
    """A ``CircuitBreaker`` that is always closed."""

    async def check(self) -> None: ...

    async def admit(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def aclose(self) -> None: ...
