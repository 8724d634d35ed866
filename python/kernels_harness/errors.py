"""What can go wrong, with the texts of the command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._native import Error, GpuError

__all__ = ["Error", "GpuError", "Refused", "RefusedError", "UsageError"]


class UsageError(Error):
    """Wrong usage: the command's exit code 2."""


@dataclass(frozen=True)
class Refused:
    """One thing of yours that was not touched."""

    path: str
    reason: str
    changes: tuple[str, ...]
    """The files that a person changed."""
    advice: tuple[str, ...]
    """What you can do."""


class RefusedError(Error):
    """Something of yours is protected, and nothing at all was changed: exit code 3."""

    refused: tuple[Refused, ...]

    def __init__(self, message: str, refused: tuple[Refused, ...]) -> None:
        super().__init__(message)
        self.refused = refused


def raised(report: dict[str, Any]) -> Error:
    """The exception of a report with an error."""
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
