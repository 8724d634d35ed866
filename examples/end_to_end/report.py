"""What is written and shown. docs/end-to-end.md has the fields."""

import importlib.metadata
import json
import os
import platform
import subprocess
from typing import Dict, List

import torch

from .categories import LABELS

FORMAT = 1


def versions(packages: List[str]) -> Dict[str, str]:
    there = {"python": platform.python_version(), "torch": torch.__version__}
    for package in [*packages, "kernels", "triton"]:
        try:
            there[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    if torch.version.cuda:
        there["cuda"] = torch.version.cuda
    return there


def driver() -> str:
    """The driver's version; torch does not know it."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            words = file.readline().split()
        return next(word for word in words if word[0].isdigit() and "." in word)
    except (OSError, StopIteration):
        pass
    try:
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True, check=True, timeout=30).stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def card() -> Dict[str, object]:
    about = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "name": about.name,
        "driver": driver(),
        "capability": f"{about.major}.{about.minor}",
        "memory_bytes": about.total_memory,
    }


def write(path: str, result: Dict[str, object]) -> None:
    """Whole or not at all."""
    beside = f"{path}.{os.getpid()}.tmp"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, allow_nan=False)
        file.write("\n")
    os.replace(beside, path)


def grid(head, lines) -> str:
    widths = [max(len(str(line[i])) for line in [head, *lines]) for i in range(len(head))]
    shown = [head, ["-" * width for width in widths], *lines]
    return "\n".join(
        "  ".join(str(c).ljust(w) if i < 2 else str(c).rjust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip()
        for line in shown
    )


def times(one, base) -> str:
    return f"{base['time_ms']['median'] / one['time_ms']['median']:.2f}" if timed(one) and timed(base) else "—"


def timed(one) -> bool:
    return bool(one and one.get("time_ms"))


def table(result) -> str:
    """For a terminal."""
    lines, said = [], []
    for case in result["cases"]:
        by_name = {one["name"]: one for one in case["contenders"]}
        for name, one in by_name.items():
            if not timed(one):
                errors = ", ".join(f"{what} {error:.3g}" for what, error in (one.get("errors") or {}).items())
                said.append(f"{case['name']}, {name}: {one.get('wrong') or f'right, not timed; {errors}'}")
                continue
            time = one["time_ms"]
            spread = f"{time['median']:.2f} ({time['p10']:.2f}–{time['p90']:.2f})"
            profile = one.get("profile")
            errors = one.get("errors") or {}
            lines.append(
                [
                    case["name"],
                    name,
                    spread,
                    times(one, by_name.get("eager")),
                    times(one, by_name.get("compile")),
                    f"{one['peak_bytes'] / 2**30:.2f}" if one.get("peak_bytes") else "—",
                    f"{profile['launches']:.0f}" if profile else "—",
                    f"{profile['busy_ms']:.2f}" if profile else "—",
                    f"{100 * profile['host_bound']:.0f}" if profile else "—",
                    f"{errors['of_fp32']:.2e}" if "of_fp32" in errors else "—",
                    f"{one['first_call_s']:.1f}",
                ]
            )
    head = ["case", "contender", "ms (p10–p90)", "× eager", "× compile", "GiB", "launches", "busy ms", "idle %", "error", "first s"]
    text = grid(head, lines) if lines else "nothing was timed"
    for case, contender, why in ((one["case"], one["contender"], one["why"]) for one in result["skipped"]):
        said.append(f"{case}, {contender}: {why}")
    return "\n".join([text, *([""] if said else []), *said])


def profiles(result) -> str:
    """Where the time goes, milliseconds a step."""
    names = list(LABELS)
    lines = []
    for case in result["cases"]:
        for one in case["contenders"]:
            if one.get("profile"):
                shares = one["profile"]["categories_ms"]
                lines.append([case["name"], one["name"], *[f"{shares[name]:.2f}" for name in names]])
    return grid(["case", "contender", *[LABELS[name] for name in names]], lines) if lines else ""
