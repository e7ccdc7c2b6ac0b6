"""Log files as processes write them, without the processes."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 1, 17, 10, 30, tzinfo=UTC)


def line(at_us: int, event: str = "Something", level: str = "info", **fields: Any) -> bytes:
    ts = (START + timedelta(microseconds=at_us)).isoformat().replace("+00:00", "Z")
    shown = {"ts": ts, "level": level, "event": event, **fields}
    return json.dumps(shown, separators=(",", ":")).encode() + b"\n"


def write(folder: Path, name: str, *lines: bytes) -> Path:
    path = folder / "logs" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.writelines(lines)
    return path
