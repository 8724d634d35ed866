#!/usr/bin/env python3
"""Makes docs/demo.svg: runs the commands below with a real `kernels` on a pseudo-terminal and draws what it printed.

    pip install rich && cargo build --release && docs/demo.py target/release/kernels
"""
import os
import pty
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

COMMANDS = [
    "kernels skills add cuda-kernels --claude --codex --opencode",
    "echo '- our cards: H100' >> .claude/skills/cuda-kernels/SKILL.md",
    "kernels skills status",
    "kernels skills add --claude",
    "kernels skills add --claude --force",
]
# A window around the text, and no font from the network.
FORMAT = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
  line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs>
{lines}
</defs>
<rect width="{width}" height="{height}" rx="8" fill="#1e1e1e"/>
<g transform="translate(16, 16)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def run(command, folder, env):
    """What a command prints on a terminal 100 columns wide."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(["sh", "-c", "stty cols 100; " + command], cwd=folder, env=env, stdin=theirs, stdout=theirs,
                               stderr=theirs, close_fds=True)
    os.close(theirs)
    printed = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        printed += part
    process.wait()
    return printed.decode().replace("\r\n", "\n")


def main():
    program = os.path.abspath(sys.argv[1])
    console = Console(record=True, width=100, file=open(os.devnull, "w"), force_terminal=True, color_system="standard")
    with tempfile.TemporaryDirectory() as root:
        home, project, tools = (os.path.join(root, name) for name in ("home", "home/project", "tools"))
        os.makedirs(os.path.join(project, ".git"))
        os.makedirs(tools)
        os.symlink(program, os.path.join(tools, "kernels"))
        env = {"HOME": home, "PATH": tools + ":/usr/bin:/bin", "TERM": "xterm-256color"}
        for command in COMMANDS:
            console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
            printed = run(command, project, env).replace(home, "/home/you")
            if printed:
                console.print(Text.from_ansi(printed.rstrip("\n")))
    here = os.path.dirname(os.path.abspath(__file__))
    svg = console.export_svg(title="", theme=DIMMED_MONOKAI, code_format=FORMAT, unique_id="demo")
    with open(os.path.join(here, "demo.svg"), "w") as file:
        file.write("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


if __name__ == "__main__":
    main()
