"""Exceptions, with the messages of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._native import Error, GpuError

__all__ = ["Error", "GpuError", "Refused", "RefusedError", "UsageError"]


class UsageError(Error):
    """Wrong usage: the command's exit code 2."""


@dataclass(frozen=True)
class Refused:
    """A file or folder of the user that was not changed."""

    path: str
    reason: str
    changes: tuple[str, ...]
    """The files that a person changed."""
    advice: tuple[str, ...]
    """What you can do."""


class RefusedError(Error):
    """Files of the user are protected, and nothing was changed: the command's exit code 3."""

    refused: tuple[Refused, ...]

    def __init__(self, message: str, refused: tuple[Refused, ...]) -> None:
        super().__init__(message)
        self.refused = refused


def raised(report: dict[str, Any]) -> Error:
    """The exception for a report with an error."""
    message, code = str(report["error"]), report.get("exit_code")
    if code == 3:
        entries = report.get("refused") or []
        return RefusedError(
            message,
            tuple(
                Refused(
                    entry["path"],
                    entry["reason"],
                    tuple(change["path"] for change in entry.get("changes", [])),
                    tuple(entry.get("advice", [])),
                )
                for entry in entries
            ),
        )
    return UsageError(message) if code == 2 else Error(message)
