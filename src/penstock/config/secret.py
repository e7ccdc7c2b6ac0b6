"""Text that is never printed."""


class Secret(str):
    """Text that is masked in ``str`` and ``repr``, and so in every log and traceback."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def reveal(self) -> str:
        """Return the text itself, for the code that sends it."""
        return str.__str__(self)

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)
