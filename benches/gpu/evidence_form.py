"""The text of a record for evidence/, one case a line: what src/evidence/form.rs writes."""

import json
import os
import pathlib

LINE = 1500
CASE = 4000


def text(value, depth=0):
    line = json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict) and value and (depth == 0 or len(line) > (CASE if depth <= 2 else LINE)):
        fields = [f"{json.dumps(name, ensure_ascii=False)}: {text(inner, depth + 1)}" for name, inner in value.items()]
        return block("{", fields, "}", depth)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return block("[", [text(inner, depth + 1) for inner in value], "]", depth)
    return line


def block(opened, lines, closed, depth):
    inner = ",".join(f"\n{' ' * (depth + 1)}{line}" for line in lines)
    return f"{opened}{inner}\n{' ' * depth}{closed}"


def write(path, record):
    """Writes a record whole or not at all."""
    part = pathlib.Path(f"{path}.part")
    part.write_text(text(record) + "\n")
    os.replace(part, path)
