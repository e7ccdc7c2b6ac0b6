"""Inputs in a folder, where both sides of a comparison find them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_FRAMES, _PEERS_FRAMES = "frames.txt", "peers_frames.txt"
_SNAPSHOTS, _MARKETS = "snapshots.json", "markets.json"


class Market(NamedTuple):
    """A market, as each side finds it spelled in its frames."""

    base: str
    quote: str
    native: str
    peers_native: str

    @property
    def name(self) -> str:
        """What both sides call it when they say what they saw."""
        return f"{self.base}-{self.quote}"


@dataclass(frozen=True)
class Inputs:
    """Where the messages and snapshots are, and what they hold."""

    folder: Path

    def frames(self) -> list[bytes]:
        """The messages, in order."""
        return (self.folder / _FRAMES).read_bytes().splitlines()

    def peers_frames(self) -> list[bytes]:
        """The same events in the same order, in the format the peer speaks."""
        path = self.folder / _PEERS_FRAMES
        return path.read_bytes().splitlines() if path.exists() else self.frames()

    def snapshots(self) -> dict[str, str]:
        """The body of each market's snapshot, from before the first message; none if it is sent."""
        bodies: dict[str, str] = json.loads((self.folder / _SNAPSHOTS).read_text())
        return bodies

    def markets(self) -> list[Market]:
        """The markets they are of."""
        return [Market(*each) for each in json.loads((self.folder / _MARKETS).read_text())]


def store(
    folder: Path,
    markets: Sequence[Market],
    frames: Sequence[str],
    peers_frames: Sequence[str] | None = None,
    snapshots: Mapping[str, str] | None = None,
) -> Inputs:
    """Write inputs into a folder, which is made if it is not there."""
    folder.mkdir(exist_ok=True)
    (folder / _FRAMES).write_text("\n".join(frames))
    if peers_frames is not None:
        (folder / _PEERS_FRAMES).write_text("\n".join(peers_frames))
    (folder / _SNAPSHOTS).write_text(json.dumps(snapshots or {}))
    (folder / _MARKETS).write_text(json.dumps(markets))
    return Inputs(folder)


def compact(value: object) -> str:
    """JSON without a space."""
    return json.dumps(value, separators=(",", ":"))
