"""Agent skills: `add`, `status` and `validate`, as `kernels skills` does them, in this process.

As for the command, the project is the git root of the current folder, and the home is `HOME`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Union

from . import _native
from .errors import raised

__all__ = ["Added", "Change", "Finding", "Install", "Skill", "Status", "Step", "Validation", "add", "status", "validate"]

StrPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Finding:
    """An error or a warning about a skill."""

    rule: str
    severity: str
    """`warning`, `error` or `fatal`; a fatal one cannot be installed."""
    file: str
    line: int | None
    message: str


@dataclass(frozen=True)
class Skill:
    """An installed skill."""

    name: str
    version: str | None
    tree: str
    """SHA-256 of its files."""


@dataclass(frozen=True)
class Step:
    """The change in one place, or with `dry_run` the change that would be made."""

    action: str
    """`install`, `adopt`, `update`, `repair`, `replace`, `link`, `unchanged`, `keep-link`."""
    path: str
    scope: str
    agents: tuple[str, ...]
    link: str | None
    """Where a link leads, relative to its folder."""
    backup: str | None
    """Where what was replaced is kept."""


@dataclass(frozen=True)
class Added:
    """The result of `add`."""

    skill: Skill
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    dry_run: bool


@dataclass(frozen=True)
class Change:
    """One file of an install that differs."""

    kind: str
    path: str


@dataclass(frozen=True)
class Install:
    """One install and its state."""

    name: str
    path: str
    scope: str
    agents: tuple[str, ...]
    state: str
    """`current`, `unchecked`, `stale`, `newer`, `modified`, `forked`, `missing files`, `damaged`, `foreign`, …"""
    version: str | None
    available: str | None
    link: str | None
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Status:
    """All installs; `current` if all are as they should be, and no change was interrupted."""

    installs: tuple[Install, ...]
    interrupted: tuple[str, ...]
    current: bool


@dataclass(frozen=True)
class Validation:
    """The result of checking one skill."""

    path: str
    valid: bool
    findings: tuple[Finding, ...]


def add(
    skill: StrPath = "cuda-kernels",
    *,
    agents: Iterable[str] = (),
    dest: Iterable[StrPath] = (),
    user: bool = False,
    force: bool = False,
    link: bool = False,
    dry_run: bool = False,
) -> Added:
    """Installs an embedded skill, a folder or a .skill file.

    agents: ids such as "claude", "codex", "opencode"; dest: folders that hold skills; user: install for the user instead of
    the project (`--global`), by default for every agent on this machine; force: replace protected files after moving them
    to a backup; link: one real copy, and links to it; dry_run: change nothing.

    Raises RefusedError if files of the user are in the way, UsageError if no place is given, Error otherwise.
    """
    flags = [name for name, set_ in (("--force", force), ("--link", link), ("--dry-run", dry_run)) if set_]
    report = _called(["skills", "add", *flags, *_targets(agents, dest, user), "--", os.fspath(skill)])[1]
    found = report["skill"]
    return Added(
        Skill(found["name"], found["version"], found["tree"]),
        tuple(
            Step(step["action"], step["path"], step["scope"], tuple(step["agents"]), step["link"], step["backup"])
            for step in report["steps"]
        ),
        tuple(report["notes"]),
        _findings(report["findings"]),
        report["dry_run"],
    )


def status(
    name: str | None = None, *, agents: Iterable[str] = (), dest: Iterable[StrPath] = (), user: bool = False
) -> Status:
    """The state of all installs, or those of one skill, agent or folder. An empty result is an error only if a name is given
    that is not installed."""
    done, report = _called(["skills", "status", *_targets(agents, dest, user), *(["--", name] if name is not None else [])])
    return Status(
        tuple(
            Install(
                row["name"],
                row["path"],
                row["scope"],
                tuple(row["agents"]),
                row["state"],
                row["version"],
                row["available"],
                row["link"],
                tuple(Change(change["kind"], change["path"]) for change in row["changes"] or []),
            )
            for row in report["installs"]
        ),
        tuple(report["interrupted"]),
        done,
    )


def validate(*paths: StrPath, strict: bool = False) -> tuple[Validation, ...]:
    """Checks skill folders, SKILL.md files or .skill archives against the specification and against what real agents reject.
    `strict`: warnings make a skill invalid as well."""
    words = ["skills", "validate", *(["--strict"] if strict else []), "--", *(os.fspath(path) for path in paths)]
    return tuple(
        Validation(entry["path"], entry["valid"], _findings(entry["findings"])) for entry in _called(words)[1]["skills"]
    )


def _targets(agents: Iterable[str], dest: Iterable[StrPath], user: bool) -> list[str]:
    if isinstance(agents, str) or isinstance(dest, (str, os.PathLike)):
        raise TypeError("agents and dest are lists: agents=['claude']")
    named = [f"--agent={agent}" for agent in agents] + [f"--dest={os.fspath(folder)}" for folder in dest]
    return [*named, *(["--global"] if user else [])]


def _findings(entries: list[dict[str, Any]]) -> tuple[Finding, ...]:
    return tuple(
        Finding(entry["rule"], str(entry["severity"]), entry["file"], entry["line"], entry["message"]) for entry in entries
    )


def _called(words: list[str]) -> tuple[bool, dict[str, Any]]:
    done, text = _native.call(words)
    report: dict[str, Any] = json.loads(text)
    if "error" in report:
        raise raised(report)
    return done, report
