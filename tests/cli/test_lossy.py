"""What is said to nobody ends nothing."""

import os
from typing import TextIO, cast

from penstock.cli.lossy import Lossy
from penstock.telemetry import RequestSent, configure_logging, log_facts


def test_a_pipe_whose_reader_is_gone_takes_what_cannot_be_written() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb", buffering=0) as raw:
        broken = Lossy(cast("TextIO", _Text(raw.fileno())))
        broken.write("anything\n")
        broken.flush()
        configure_logging("json", cast("TextIO", broken))
        log_facts(RequestSent(exchange="toy", path="/", cost=1, status=200, took_ms=1))


class _Text:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        return os.write(self._descriptor, text.encode())

    def flush(self) -> None:
        os.write(self._descriptor, b"")
