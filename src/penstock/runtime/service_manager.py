"""Tells the service manager how a process is, by systemd's notification protocol.

Does nothing unless the variable NOTIFY_SOCKET is set, which systemd does for units of
``Type=notify``. A message that cannot be sent is dropped: the process is more important.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""For this process only: children must not be taken for the service itself."""
_LONGEST_STATUS = 500


class ServiceManager:
    """The service manager of this process, if it has one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is in the abstract namespace.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._ready = False
        usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
        is_ours = not pid or pid == str(os.getpid())
        self.watchdog_s = int(usec) / 1e6 if address and usec.isdigit() and is_ours else None
        """Seconds in which a sign of life is expected; None if none is."""

    def __bool__(self) -> bool:
        return bool(self._address)

    def ready(self) -> None:
        """The process has started."""
        if not self._ready:
            self._ready = True
            self._send("READY=1")

    def alive(self, doing: str) -> None:
        """The process runs; ``doing`` is shown by ``systemctl status``."""
        status = f"STATUS={' '.join(doing.split())[:_LONGEST_STATUS]}"
        self._send(f"WATCHDOG=1\n{status}" if self.watchdog_s else status)

    def stopping(self) -> None:
        """The process begins to stop."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(message.encode(), self._address)


class _This:
    process = ServiceManager({})


def use_service_manager(environment: Mapping[str, str]) -> None:
    """Notify the service manager that these variables name, from now on."""
    _This.process = ServiceManager(environment)


def service_manager() -> ServiceManager:
    """The service manager of this process."""
    return _This.process
