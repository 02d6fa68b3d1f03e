"""Frames captured between official clients, brokers and name servers of 4.9.7 and 5.3.3 (tests/golden/wire)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from brokerd.remoting.command import RemotingCommand, decode_frame

GOLDEN = Path(__file__).parents[2] / "golden" / "wire"
VERSIONS = ("4.9.7", "5.3.3")


@dataclass(frozen=True)
class GoldenFrame:
    """One captured frame and what its manifest line says of it."""

    version: str
    manifest: dict[str, Any]
    data: bytes  # with the length prefix

    @property
    def name(self) -> str:
        return f"{self.version}/{self.manifest['file']}"

    @property
    def code(self) -> int:
        """The request's code, also of a response."""
        return int(self.manifest["code"])

    @property
    def is_request(self) -> bool:
        return bool(self.manifest["kind"] == "request")

    @property
    def is_success(self) -> bool:
        return not self.is_request and self.manifest["response_code"] == 0

    @property
    def header(self) -> dict[str, Any]:
        header: dict[str, Any] = self.manifest["header"]
        return header

    def command(self) -> RemotingCommand:
        return decode_frame(self.data[4:])


@cache
def golden_frames() -> tuple[GoldenFrame, ...]:
    """All of them, in the order of the manifests."""
    frames = []
    for version in VERSIONS:
        for line in (GOLDEN / version / "manifest.jsonl").read_text(encoding="utf-8").splitlines():
            manifest = json.loads(line)
            data = (GOLDEN / version / manifest["file"]).read_bytes()
            frames.append(GoldenFrame(version, manifest, data))
    return tuple(frames)


def frames_of(*codes: int, is_request: bool) -> list[GoldenFrame]:
    """The requests, or the successful answers to requests, with these codes."""
    return [
        frame
        for frame in golden_frames()
        if frame.code in codes and frame.is_request == is_request and (is_request or frame.is_success)
    ]
