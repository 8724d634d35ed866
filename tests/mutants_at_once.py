#!/usr/bin/env python3
"""Judges many changes of the program with one compilation.

cargo-mutants compiles the program anew for each change, a minute or two each. Here all of a sample are compiled in, each behind a
condition, and a run of the tests switches one on: the number of it is in a file that the program reads once.

    tests/mutants_at_once.py --count 200 --seed 1 [--minutes 60] [--jobs 2] [FILE...]
    tests/mutants_at_once.py --count 200 --plan        # only compiles
    tests/mutants_at_once.py --planned --jobs 16       # judges what was compiled, on another machine at the same path, say,
                                                       # and goes on where an earlier run was stopped

FILE: only changes of these files; with --diff only of lines that differ from origin/main. The list of changes is that of
`cargo mutants --list --json` with .cargo/mutants.toml. What cannot be switched (in constants, behind `impl Trait`) is counted
apart. Needs cargo-mutants, and Python's tree-sitter and tree-sitter-rust, but for --planned. Each job has copies of the programs,
with the name of a file of its own in them. A test that fails without any change, for want of a tool on this machine, is left out
and named. Results are in target/mutants/at-once.jsonl, one a line.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import queue
import random
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "mutants"
TREE = OUT / "tree"
# Of equal lengths, so that one can stand for the other in a program.
SWITCH = "on-{:03}".format
# The tests of a room, the quickest first: a test program, and a part of the names of its tests.
QUICK_CHEATS = ["all_code_paths", "every_timed_launch", "a_launch_faster", "a_slot_that_is_wrong", "what_is_wrong_in_all",
                "a_round_for_which", "a_code_path_that_loses", "verify_says"]
TESTS = {
    "verify": [("lib", ["verify::", "bench::"]), ("cheats", QUICK_CHEATS), ("cli", ["types::"]), ("cheats", ["without_a_card"])],
    "bench": [("lib", ["verify::", "bench::"]), ("cheats", QUICK_CHEATS), ("cli", ["evidence::"]), ("cheats", ["without_a_card"])],
    "compile": [("lib", ["compile::"]), ("cheats", ["verify_says"]), ("cli", ["card::"]), ("cuda", ["build::"])],
    "evidence": [("lib", ["evidence::"]), ("cli", ["evidence::", "ci::", "e2e::"])],
    "install": [("lib", ["install::"]), ("cli", ["add::", "manage::", "edits::", "versions::", "team::", "sources::", "hostile::"])],
    "check": [("lib", ["check::"]), ("cli", ["check::", "project::", "init::"])],
}
ON = """
/// Whether a change is switched on.
pub mod mutant {
    pub fn on(number: u32) -> bool {
        static ON: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        *ON.get_or_init(|| std::fs::read_to_string("%s").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)) == number
    }
}
"""


def listed(arguments):
    command = ["cargo", "mutants", "--list", "--json"]
    command += [f"--file={name}" for name in arguments.files]
    if arguments.diff:
        OUT.mkdir(parents=True, exist_ok=True)
        diff = subprocess.run(["git", "diff", os.environ.get("BASE", "origin/main") + "...HEAD"], cwd=ROOT, check=True, capture_output=True)
        (OUT / "diff").write_bytes(diff.stdout)
        command += ["--in-diff", str(OUT / "diff")]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def parser():
    import tree_sitter_rust
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_rust.language()))


class Source:
    """A file, with the conditions that its changes need."""

    def __init__(self, text, rust):
        self.bytes = text.encode()
        self.starts = [0]
        for line in text.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.root = rust.parse(self.bytes).root_node
        self.at = {}

    def offset(self, place):
        """Columns are counted in characters, from 1."""
        line = self.starts[place["line"] - 1]
        text = self.bytes[line:self.starts[place["line"]]].decode()
        return line + len(text[:place["column"] - 1].encode())

    def add(self, number, mutant):
        start, end = self.offset(mutant["span"]["start"]), self.offset(mutant["span"]["end"])
        genre, by = mutant["genre"], mutant["replacement"]
        leaf = self.root.descendant_for_byte_range(start, max(start, end - 1))
        node, where = leaf, leaf
        while where is not None:
            fixed = where.type in ("const_item", "static_item", "array_type", "macro_invocation")
            is_const = where.type == "function_item" and re.search(rb"\bconst\b[^(]*\bfn\b", self.bytes[where.start_byte:where.start_byte + 200].split(b"(")[0])
            if fixed or is_const:
                return False
            where = where.parent
        wanted = {
            "BinaryOperator": ("binary_expression", "compound_assignment_expr"), "UnaryOperator": ("unary_expression",),
            "FnValue": ("block",), "MatchArm": ("match_arm",), "MatchArmGuard": ("match_pattern",),
        }.get(genre)
        if wanted is None:
            return False
        while node is not None and node.type not in wanted:
            node = node.parent
        if node is None:
            return False
        if genre == "FnValue":
            while node is not None and not (node.type == "block" and node.parent.type == "function_item"):
                node = node.parent
            given = node and node.parent.child_by_field_name("return_type")
            if node is None or given and b"impl " in self.bytes[given.start_byte:given.end_byte]:
                return False
        self.at.setdefault((node.start_byte, node.end_byte, node.type), []).append((number, genre, by, (start, end)))
        return True

    def render(self, node=None):
        node = node or self.root
        inside = self.children(node)
        mutants = self.at.get((node.start_byte, node.end_byte, node.type), [])
        if not mutants:
            return inside
        on = "crate::mutant::on({}_u32)".format
        text = inside
        for number, genre, by, _ in mutants:
            if genre == "FnValue":
                text = "{ if " + on(number) + " { return " + by + "; }" + text[1:]
            elif genre == "MatchArm":
                pattern, rest = self.arm(node)
                text = f"{pattern} if !{on(number)}{rest}"
            elif genre == "MatchArmGuard":
                pattern = node.child_by_field_name("condition")
                head = self.bytes[node.start_byte:pattern.start_byte].decode()
                text = f"{head}(if {on(number)} {{ {by} }} else {{ {self.render(pattern)} }})"
            elif genre == "UnaryOperator":
                text = f"(if {on(number)} {{ {self.render(node.children[-1])} }} else {{ {text} }})"
            else:
                left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
                changed = f"{self.render(left)} {by} {self.render(right)}"
                text = f"(if {on(number)} {{ {changed} }} else {{ {text} }})"
        return text

    def arm(self, node):
        pattern = node.child_by_field_name("pattern")
        condition = pattern.child_by_field_name("condition")
        rest = self.bytes[pattern.end_byte:node.end_byte].decode()
        if condition is None:
            return self.bytes[node.start_byte:pattern.end_byte].decode(), rest
        head = self.bytes[node.start_byte:condition.start_byte].decode().rstrip().removesuffix("if")
        return head, f" && ({self.bytes[condition.start_byte:condition.end_byte].decode()}){rest}"

    def children(self, node):
        parts, at = [], node.start_byte
        for child in node.children:
            parts += [self.bytes[at:child.start_byte].decode(), self.render(child)]
            at = child.end_byte
        return "".join(parts) + self.bytes[at:node.end_byte].decode()


def plant(mutants, dropped):
    """Writes the tree with all mutants but the dropped ones; returns which are in it."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    sources, planted, rust = {}, [], parser()
    for number, mutant in mutants.items():
        if number not in dropped:
            name = mutant["file"]
            source = sources.get(name) or sources.setdefault(name, Source((ROOT / name).read_text(), rust))
            if source.add(number, mutant):
                planted.append(number)
    for name in filter(None, files):
        to = TREE / name
        to.parent.mkdir(parents=True, exist_ok=True)
        source = sources.get(name)
        data = source.render().encode() if source else (ROOT / name).read_bytes()
        if source and len(source.bytes) > source.root.end_byte:
            data += source.bytes[source.root.end_byte:]
        if name == "src/lib.rs":
            data += (ON % (OUT / SWITCH(0))).encode()
        if to.is_symlink() or not to.exists() or to.read_bytes() != data:
            to.unlink(missing_ok=True)
            to.write_bytes(data)
            shutil.copymode(ROOT / name, to)
    return planted


def compiled(mutants, programs):
    """The test programs, and the mutants that compile."""
    dropped = set()
    environment = {**os.environ, "CARGO_TARGET_DIR": str(OUT / "target")}
    while True:
        planted = plant(mutants, dropped)
        targets = [word for name in programs for word in (["--lib"] if name == "lib" else ["--test", name])]
        command = ["cargo", "test", "--no-run", "--message-format=json", "--bin", "kernels", *targets]
        ended = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True)
        messages = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
        if ended.returncode == 0:
            built = [m for m in messages if m.get("executable")]
            made = {m["target"]["name"]: m["executable"] for m in built if m["profile"]["test"] and m["target"]["kind"] != ["bin"]}
            made["lib"] = made.pop("kernels", None)
            # Compiled for the tests that run it.
            made["program"] = next((m["executable"] for m in built if m["target"]["kind"] == ["bin"] and not m["profile"]["test"]), None)
            return {name: path for name, path in made.items() if path}, planted
        # A mutant that does not compile is named by its own line; the numbers there are dropped.
        before = len(dropped)
        for message in messages:
            if message.get("reason") != "compiler-message" or message["message"]["level"] != "error":
                continue
            # Of a match that is not exhaustive any more, the hint names the arm.
            hints = [span for hint in message["message"]["children"] for span in hint["spans"]]
            for span in filter(lambda span: (TREE / span["file_name"]).is_relative_to(TREE), message["message"]["spans"] + hints):
                lines = (TREE / span["file_name"]).read_text().splitlines()[span["line_start"] - 1:span["line_end"]]
                dropped |= {int(n) for n in re.findall(r"mutant::on\((\d+)_u32\)", "\n".join(lines))}
        if len(dropped) == before:
            sys.exit(f"the changed program does not compile:\n{ended.stderr[-3000:]}")


class Job:
    """Copies of the programs that read a switch of their own."""

    def __init__(self, number, programs, threads):
        self.switch, self.threads, self.programs = OUT / SWITCH(number), str(threads), {}
        folder = OUT / f"job-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in programs.items():
            data = pathlib.Path(path).read_bytes().replace(str(OUT / SWITCH(0)).encode(), str(self.switch).encode())
            self.programs[name] = folder / ("kernels" if name == "program" else name)
            self.programs[name].write_bytes(data)
            self.programs[name].chmod(0o755)

    def judged(self, number, room, seconds, left_out):
        """The tests that fail while a mutant is on, and how long they took."""
        self.switch.write_text(str(number))
        begun = time.time()
        program = str(self.programs.get("program", ""))
        environment = {**os.environ, "KERNELS_PROGRAM": program, "RUST_TEST_THREADS": self.threads}
        skip = [word for test in sorted(left_out) for word in ("--skip", test)]
        try:
            for name, filters in TESTS[room]:
                # A minute or more, for what nothing else noticed.
                if name not in self.programs or seconds < 120 and filters == ["without_a_card"]:
                    continue
                # With all that the tests have started.
                limit = ["timeout", "--kill-after=2", f"{max(5, seconds - (time.time() - begun)):.0f}"]
                ended = subprocess.run([*limit, self.programs[name], "--quiet", *filters, *skip], cwd=TREE, env=environment,
                                       capture_output=True, text=True, errors="replace", start_new_session=True)
                if ended.returncode == 124:
                    return ["timeout"] if name == "lib" else [], time.time() - begun
                if ended.returncode != 0:
                    failed = re.findall(r"^    (\S+)$", ended.stdout, re.M)
                    return failed or [f"{name} ended with {ended.returncode}"], time.time() - begun
            return [], time.time() - begun
        finally:
            self.switch.write_text("0")


def wilson(caught, count, z=1.96):
    share, square = caught / count, z * z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = z * math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    return 100 * (middle - half), 100 * (middle + half)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=120, help="the most for one change")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--plan", action="store_true", help="compile, and judge nothing")
    parser.add_argument("--planned", action="store_true", help="judge what --plan compiled")
    parser.add_argument("--programs", default="lib,cli,cheats")
    parser.add_argument("--diff", action="store_true", help="changes of lines that differ from $BASE, origin/main")
    parser.add_argument("--strict", action="store_true", help="exit code 1 where under nine in ten are caught")
    arguments = parser.parse_args()
    plan = OUT / "plan.json"
    if not arguments.planned:
        everything = listed(arguments)
        if not everything:
            return print("nothing to change")
        chosen = random.Random(arguments.seed).sample(everything, min(arguments.count, len(everything)))
        mutants = dict(enumerate(chosen, 1))
        OUT.mkdir(parents=True, exist_ok=True)
        programs, planted = compiled(mutants, arguments.programs.split(","))
        print(f"{len(everything)} changes, {len(mutants)} drawn, {len(planted)} can be switched", flush=True)
        named = [[number, mutants[number]["file"].split("/")[1], mutants[number]["name"]] for number in planted]
        plan.write_text(json.dumps({"programs": programs, "mutants": named}))
    if arguments.plan:
        return
    planned = json.loads(plan.read_text())
    log = OUT / "at-once.jsonl"
    if not arguments.planned:
        log.unlink(missing_ok=True)
    results = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    threads = max(1, 2 * (os.cpu_count() or 1) // arguments.jobs)
    jobs, writing = queue.Queue(), threading.Lock()
    for number in range(1, arguments.jobs + 1):
        jobs.put(Job(number, planned["programs"], threads))
    left_out = set()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:

        def judge(number, room, seconds):
            job = jobs.get()
            try:
                return job.judged(number, room, seconds, left_out)
            finally:
                jobs.put(job)

        rooms = {room for _, room, _ in planned["mutants"]}
        while rooms:
            unchanged = {room: pool.submit(judge, 0, room, 300) for room in sorted(rooms)}
            for room, one in unchanged.items():
                failed, seconds = one.result()
                if left_out.issuperset(failed):
                    rooms.remove(room)
                    print(f"{room}: its tests take {seconds:.0f} s", flush=True)
                for test in sorted(set(failed) - left_out):
                    print(f"left out, for it fails without any change: {test}", flush=True)
                left_out.update(failed)
        end = time.time() + 60 * arguments.minutes

        def one(number, room, name):
            if time.time() > end:
                return
            failed, seconds = judge(number, room, arguments.seconds)
            result = {"room": room, "name": name, "caught": failed, "seconds": round(seconds, 1)}
            with writing:
                results.append(result)
                with log.open("a") as file:
                    file.write(json.dumps(result) + "\n")
                print(f"{'caught' if failed else 'MISSED'} {seconds:5.1f} s  {name}  {' '.join(failed[:1])}", flush=True)

        done = {(result["room"], result["name"]) for result in results}
        list(pool.map(lambda mutant: one(*mutant), [mutant for mutant in planned["mutants"] if tuple(mutant[1:]) not in done]))
    for name in [*TESTS, "all"]:
        some = [one for one in results if name in (one["room"], "all")]
        if some:
            caught = sum(1 for one in some if one["caught"])
            low, high = wilson(caught, len(some))
            print(f"{name:9} {caught:4} of {len(some):4} caught, {100 * caught / len(some):.0f} % ({low:.0f} to {high:.0f})")
            if arguments.strict and name == "all" and caught < 0.9 * len(some):
                sys.exit(1)


if __name__ == "__main__":
    main()
