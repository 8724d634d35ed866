#!/usr/bin/env python3
"""Judges many changes of the program with one compilation.

cargo-mutants compiles the program anew for each change, a minute or two each. Here all of a sample are compiled in, each behind a
condition, and a run of the tests switches one on: the number of it is in a file that the program reads once. First each test is
run alone without a change, and notes which of the conditions it evaluates; a change is then judged by the tests that reach it,
the quickest first, until one fails. One whose tests take longer than --seconds is counted apart.

    tests/mutants_at_once.py --count 200 --seed 1 [--minutes 60] [--jobs 2] [FILE...]
    tests/mutants_at_once.py --count 200 --plan        # only compiles
    tests/mutants_at_once.py --planned --jobs 16       # judges what was compiled, on another machine at the same path, say,
                                                       # and goes on where an earlier run was stopped

FILE: only changes of these files; with --diff only of lines that differ from origin/main. The list of changes is that of
`cargo mutants --list --json` with .cargo/mutants.toml. What cannot be switched (in constants, behind `impl Trait`) is counted
apart. Needs cargo-mutants, and Python's tree-sitter and tree-sitter-rust, but for --planned. With the environment that `./test`
gives its tests (KERNELS_NVCC, KERNELS_PYTHON), `--programs lib,cli,cheats,cuda` judges by the tests with nvcc too. Each job has
copies of the programs, with the name of a file of its own in them. A test that fails without any change, for want of a tool on
this machine, is left out and named. Results are in target/mutants/at-once.jsonl, one a line.
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
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "mutants"
TREE = OUT / "tree"
# Of equal lengths, so that one can stand for the other in a program.
SWITCH = "on-{:03}".format
ON = """
/// Whether a change is switched on.
pub mod mutant {
    use std::sync::{OnceLock, atomic::{AtomicBool, Ordering}};
    static REACHED: [AtomicBool; %d] = [const { AtomicBool::new(false) }; %d];
    pub fn on(number: u32) -> bool {
        use std::io::Write;
        static ON: OnceLock<u32> = OnceLock::new();
        if !REACHED[number as usize].swap(true, Ordering::Relaxed)
            && let Ok(mut file) = std::fs::OpenOptions::new().append(true).open("%s.reached")
        {
            let _ = file.write_all(format!("{number} ").as_bytes());
        }
        *ON.get_or_init(|| std::fs::read_to_string("%s").ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)) == number
    }
}
"""


def listed(arguments):
    command = ["cargo", "mutants", "--list", "--json"]
    if arguments.diff:
        OUT.mkdir(parents=True, exist_ok=True)
        diff = subprocess.run(["git", "diff", os.environ.get("BASE", "origin/main") + "...HEAD"], cwd=ROOT, check=True, capture_output=True)
        (OUT / "diff").write_bytes(diff.stdout)
        command += ["--in-diff", str(OUT / "diff")]
    everything = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    # `--file` adds to what .cargo/mutants.toml names.
    return [mutant for mutant in everything if not arguments.files or mutant["file"] in arguments.files]


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
                return
            where = where.parent
        wanted = {
            "BinaryOperator": ("binary_expression", "compound_assignment_expr"), "UnaryOperator": ("unary_expression",),
            "FnValue": ("block",), "MatchArm": ("match_arm",), "MatchArmGuard": ("match_pattern",),
        }.get(genre)
        if wanted is None:
            return
        while node is not None and node.type not in wanted:
            node = node.parent
        if node is None:
            return
        if genre == "FnValue":
            while node is not None and not (node.type == "block" and node.parent.type == "function_item"):
                node = node.parent
            given = node and node.parent.child_by_field_name("return_type")
            if node is None or given and b"impl " in self.bytes[given.start_byte:given.end_byte]:
                return
        self.at.setdefault((node.start_byte, node.end_byte, node.type), []).append((number, genre, by, (start, end)))

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
            source.add(number, mutant)
    for name in filter(None, files):
        to = TREE / name
        to.parent.mkdir(parents=True, exist_ok=True)
        source = sources.get(name)
        data = source.render().encode() if source else (ROOT / name).read_bytes()
        if source and len(source.bytes) > source.root.end_byte:
            data += source.bytes[source.root.end_byte:]
        if source:  # a change within another's replacement is not there
            planted += map(int, re.findall(rb"mutant::on\((\d+)_u32\)", data))
        if name == "src/lib.rs":
            data += (ON % (len(mutants) + 1, len(mutants) + 1, OUT / SWITCH(0), OUT / SWITCH(0))).encode()
        if to.is_symlink() or not to.exists() or to.read_bytes() != data:
            to.unlink(missing_ok=True)
            to.write_bytes(data)
            shutil.copymode(ROOT / name, to)
    return sorted(set(planted))


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
                lines = (TREE / span["file_name"]).read_text().splitlines()[span["line_start"] - 1:]
                named = [re.findall(r"mutant::on\((\d+)_u32\)", line) for line in lines]
                # The match may be named and its arm not: the next change in it, then.
                own = sum(named[:span["line_end"] - span["line_start"] + 1], [])
                dropped |= {int(number) for number in own or next(filter(None, named[:20]), [])}
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

    def tests(self):
        """The names of all tests, each behind its program's."""
        for name in self.programs.keys() - {"program"}:
            listed = subprocess.run([self.programs[name], "--list", "--format=terse"], cwd=TREE, check=True, capture_output=True, text=True)
            yield from ((name, line.removesuffix(": test")) for line in listed.stdout.splitlines() if line.endswith(": test"))

    def run(self, number, program, tests, seconds):
        """Those of a program's tests that fail while a change is on, or a word for what else went wrong."""
        self.switch.write_text(str(number))
        environment = {**os.environ, "KERNELS_PROGRAM": str(self.programs.get("program", "")), "RUST_TEST_THREADS": self.threads}
        # With all that the tests have started.
        limit = ["timeout", "--kill-after=2", f"{seconds:.0f}"]
        # Not through a pipe, which a server that a test left behind would keep open.
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            ended = subprocess.run([*limit, self.programs[program], "--quiet", "--exact", *tests], cwd=TREE, env=environment,
                                   stdout=said, stderr=subprocess.DEVNULL, start_new_session=True)
            said.seek(0)
            failed = re.findall(r"^    (\S+)$", said.read(), re.M)
        self.switch.write_text("0")
        if ended.returncode == 0:
            return []
        if ended.returncode == 124:
            return [f"no end within {seconds:.0f} s"]
        return failed or [f"{program} ended with {ended.returncode}"]

    def reached(self, program, test):
        """Runs a test without a change: whether it passes, its seconds, and the changes that it reaches."""
        file = pathlib.Path(f"{self.switch}.reached")
        file.write_text("")
        begun = time.time()
        failed = self.run(0, program, [test], 300)
        numbers = sorted({int(number) for number in file.read_text().split()})
        file.unlink()
        return {"program": program, "test": test, "passes": not failed, "seconds": round(time.time() - begun, 2), "reaches": numbers}

    def judged(self, number, tests, seconds):
        """The tests that fail while a change is on, None where time was up before all were run, and how long it took. `tests`:
        those that reach it."""
        begun, tests = time.time(), sorted(tests, key=lambda test: test["seconds"])
        while tests and time.time() - begun < seconds:
            # Some seconds' worth at a time, of one program.
            program, some, worth = tests[0]["program"], [], 0
            for test in tests:
                if test["program"] == program and (not some or worth + test["seconds"] < 3):
                    some.append(test)
                    worth += test["seconds"]
            tests = [test for test in tests if test not in some]
            failed = self.run(number, program, [test["test"] for test in some], 20 + 5 * worth)
            if failed:
                return failed, time.time() - begun
        return None if tests else [], time.time() - begun


def read(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


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
    parser.add_argument("--seconds", type=float, default=300, help="the most for one change")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--plan", action="store_true", help="compile, and judge nothing")
    parser.add_argument("--planned", action="store_true", help="judge what --plan compiled")
    parser.add_argument("--programs", default="lib,cli,cheats")
    parser.add_argument("--diff", action="store_true", help="changes of lines that differ from $BASE, origin/main")
    parser.add_argument("--strict", action="store_true", help="exit code 1 where under nine in ten are caught")
    arguments = parser.parse_args()
    plan, log, reaching = OUT / "plan.json", OUT / "at-once.jsonl", OUT / "reached.jsonl"
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
        log.unlink(missing_ok=True)
        reaching.unlink(missing_ok=True)
    if arguments.plan:
        return
    planned = json.loads(plan.read_text())
    results, tests = read(log), read(reaching)
    threads = max(1, 2 * (os.cpu_count() or 1) // arguments.jobs)
    jobs, writing = queue.Queue(), threading.Lock()
    for number in range(1, arguments.jobs + 1):
        jobs.put(Job(number, planned["programs"], threads))

    def with_job(use):
        job = jobs.get()
        try:
            return use(job)
        finally:
            jobs.put(job)

    def note(kept, file, one):
        with writing:
            kept.append(one)
            with file.open("a") as to:
                to.write(json.dumps(one) + "\n")

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        known = {(test["program"], test["test"]) for test in tests}
        missing = [test for test in with_job(lambda job: sorted(job.tests())) if test not in known]
        list(pool.map(lambda test: note(tests, reaching, with_job(lambda job: job.reached(*test))), missing))
        for test in tests:
            if not test["passes"]:
                print(f"left out, for it fails without any change: {test['program']} {test['test']}", flush=True)
        print(f"{len(tests)} tests took {sum(test['seconds'] for test in tests):.0f} s, one by one", flush=True)
        end = time.time() + 60 * arguments.minutes

        def one(number, room, name):
            if time.time() > end:
                return
            by = [test for test in tests if test["passes"] and number in test["reaches"] and test["program"] in planned["programs"]]
            failed, seconds = with_job(lambda job: job.judged(number, by, arguments.seconds))
            note(results, log, {"room": room, "name": name, "caught": failed, "seconds": round(seconds, 1), "reached": len(by)})
            word = "caught" if failed else "missed" if failed == [] else "time up"
            print(f"{word:7} {seconds:5.1f} s  {name}  {failed[0] if failed else f'reached by {len(by)}'}", flush=True)

        done = {(result["room"], result["name"]) for result in results}
        list(pool.map(lambda mutant: one(*mutant), [mutant for mutant in planned["mutants"] if tuple(mutant[1:]) not in done]))
    for name in [*sorted({result["room"] for result in results}), "all"]:
        every = [one for one in results if name in (one["room"], "all")]
        some = [one for one in every if one["caught"] is not None]
        if some:
            caught = sum(1 for one in some if one["caught"])
            low, high = wilson(caught, len(some))
            print(f"{name:9} {caught:4} of {len(some):4} caught, {100 * caught / len(some):.0f} % ({low:.0f} to {high:.0f}); "
                  f"of {len(every) - len(some)} others time was up")
            if arguments.strict and name == "all" and caught < 0.9 * len(every):
                sys.exit(1)


if __name__ == "__main__":
    main()
