"""The command line of a model's script, and its run."""

import argparse
import gc
import os
import sys
import time
import traceback
from typing import Any, Dict, List

import torch

from . import accuracy, clock, kernel, model, report, trace
from .contenders import CONTENDERS, Step, allow_recompilations, compiled, parse
from .subject import Case, Subject

# The number of profiled steps; 1 if a step already consists of many.
PROFILED = 3


def options_of(subject: Subject, arguments) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=f"Times {subject.title} whole: eager, with the kernels, compiled, and both, in turns and in one run."
    )
    parser.add_argument("--config", choices=subject.configs, default=None, help=f"default: {subject.configs[0]}")
    parser.add_argument("--weights", metavar="PATH", help="a checkpoint for from_pretrained; else weights are drawn")
    parser.add_argument("--smoke", action="store_true", help="a small model and few rounds: some seconds on a card")
    parser.add_argument("--cases", metavar="NAMES", help="some of the cases, by name; --list shows them")
    parser.add_argument("--contenders", metavar="NAMES", default=",".join(CONTENDERS), help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=None, help="default: 20; with --smoke 5")
    parser.add_argument("--seconds", type=float, default=None, metavar="BUDGET", help="what does not fit is named as skipped")
    parser.add_argument(
        "--compile-mode",
        default="default",
        choices=["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"],
        help="torch.compile's; default: %(default)s",
    )
    parser.add_argument("--kernel", metavar="PATH", help="the build, or OWNER/NAME on the Hub; else the example's build/")
    parser.add_argument("--out", metavar="FILE", help="write the results as JSON, anew after each case")
    parser.add_argument("--no-fp32", action="store_true", help="hold results against eager alone")
    parser.add_argument("--list", action="store_true", help="the cases' names; needs no card")
    parser.add_argument("--dry", action="store_true", help="every step once on the CPU, with --smoke: nothing is timed")
    options = parser.parse_args(arguments)
    if options.config is None:
        options.config = "smoke" if options.smoke else subject.configs[0]
    if options.rounds is None:
        options.rounds = 5 if options.smoke else 20
    if options.rounds < clock.LEAST_ROUNDS:
        parser.error(f"--rounds must be at least {clock.LEAST_ROUNDS}: fewer are no spread")
    if options.dry and not options.smoke:
        parser.error("--dry goes with --smoke: the real model is too large for a CPU")
    if options.smoke and options.weights:
        parser.error("--smoke draws its weights: leave out --weights")
    try:
        options.contenders = parse(options.contenders)
    except ValueError as error:
        parser.error(f"--contenders: {error}")
    cases = subject.cases(options.config)
    if options.cases:
        wanted = [name.strip() for name in options.cases.split(",") if name.strip()]
        names = [case.name for case in cases]
        unknown = [name for name in wanted if name not in names]
        if unknown or not wanted:
            parser.error(f"--cases: there is no case {', '.join(unknown) or 'named'}; there are {', '.join(names)}")
        cases = [case for case in cases if case.name in wanted]
    options.chosen = cases
    return options


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def free() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def reason(error: Exception) -> str:
    """The first line of what an error says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0][:300] if said else 'no reason given'}"


def allocated(device: str) -> int:
    return torch.cuda.memory_allocated() if device == "cuda" else 0


class Run:
    """One run of a script."""

    def __init__(self, subject: Subject, options: argparse.Namespace):
        self.subject, self.options = subject, options
        self.device = "cpu" if options.dry else "cuda"
        self.backend = "aot_eager" if options.dry else "inductor"
        self.dtype = torch.bfloat16
        self.began = time.monotonic()
        self.skipped: List[Dict[str, Any]] = []
        self.calls: Dict[str, Any] = {}

    def over(self) -> bool:
        return self.options.seconds is not None and time.monotonic() - self.began > self.options.seconds

    def partial(self):
        """Why this is not all that the script times, if it is not."""
        given = []
        if self.options.cases:
            given.append("--cases")
        if len(self.options.contenders) < len(CONTENDERS):
            given.append("--contenders")
        if self.options.dry:
            given.append("--dry")
        return ", ".join(given) or None

    def start(self) -> None:
        options, subject = self.options, self.subject
        allow_recompilations()
        self.kernel_about: Dict[str, Any] = {}
        loaded = None
        if any(CONTENDERS[name][0] for name in options.contenders):
            # Look for the kernel before loading the model, to fail early.
            loaded, self.kernel_about = kernel.load(kernel.find(options.kernel, subject.environment, subject.folder))
        tell(f"{subject.title}, {options.config}: building the model")
        self.stock = model.build(subject, options.config, options.weights, self.device, self.dtype)
        self.weights_bytes = model.bytes_of(self.stock)
        # Before a second module tree shares the tensors, because optimize() may depend on their dtypes.
        self.exact = self.exact_results()
        self.optimized, self.optimize_bytes = None, 0
        if loaded is not None:
            before = allocated(self.device)
            self.optimized = model.sharing(self.stock)
            subject.optimize(self.optimized, loaded)
            free()
            self.optimize_bytes = allocated(self.device) - before
            if subject.optimize_in_graphs is not None:
                self.in_graphs = model.sharing(self.stock)
                subject.optimize_in_graphs(self.in_graphs, loaded)

    def exact_results(self) -> Dict[str, torch.Tensor]:
        """The results in fp32 by case."""
        results: Dict[str, torch.Tensor] = {}
        if self.options.no_fp32:
            return results
        if not model.fits_in_fp32(self.stock, self.device):
            tell("an fp32 run does not fit into this card's memory: results are held against eager alone")
            return results
        with model.in_fp32(self.stock) as tree:
            for case in self.options.chosen:
                if case.own_compile or self.over():
                    continue
                tell(f"{case.name}: in fp32")
                inputs = None
                try:
                    inputs = case.make(tree, self.device, torch.float32)
                    results[case.name] = case.step(tree, tree, inputs, False).clone()
                except torch.cuda.OutOfMemoryError:
                    tell(f"{case.name}: an fp32 run does not fit into this card's memory")
                except Exception as error:  # the case itself says so again, and by whom
                    tell(f"{case.name}: no fp32 run: {reason(error)}")
                del inputs
                free()
        free()
        return results

    def contenders(self, case: Case) -> List[str]:
        """Those of the chosen ones that run the case."""
        return [name for name in self.options.contenders if name != "graphs" or case.graphs]

    def call(self, case: Case, name: str, tree: torch.nn.Module):
        """What a contender's steps call: its tree, or the one compiled call of it. Cases share that one, so that a loop
        need not compile the step again. Not where CUDA graphs are captured: their memory would be another case's."""
        if not CONTENDERS[name][1] or case.own_compile:
            return tree
        if self.options.compile_mode in ("reduce-overhead", "max-autotune"):
            return compiled(tree, self.options.compile_mode, self.backend)
        if name not in self.calls:
            self.calls[name] = compiled(tree, self.options.compile_mode, self.backend)
        return self.calls[name]

    def prepare(self, case: Case, name: str, inputs: Dict[str, Any]):
        """A contender's first step: the step, its result, and what was found on the way."""
        with_kernels, is_compiled = CONTENDERS[name]
        tree = self.in_graphs if name == "graphs" else self.optimized if with_kernels else self.stock
        before = allocated(self.device)
        step = Step(case, tree, self.call(case, name, tree), inputs, is_compiled)
        result, seconds, breaks = step.first(self.device)
        about: Dict[str, Any] = {"name": name, "first_call_s": seconds}
        if is_compiled and not case.own_compile:
            about["graph_breaks"] = breaks
        # What is judged is what is timed: a graph is captured in the second step and replayed from then on.
        for _ in range(0 if self.device == "cpu" else 2):
            result = step().clone()
        free()
        own = allocated(self.device) - before - result.numel() * result.element_size()
        about["own_bytes"] = max(0, own) + (self.optimize_bytes if with_kernels else 0)
        return step, result, about

    def case(self, case: Case, exact) -> Dict[str, Any]:
        """All contenders of a case."""
        shown = {"name": case.name, "label": case.label, "per": case.per, "note": case.note, "contenders": []}
        if self.options.compile_mode in ("reduce-overhead", "max-autotune"):
            torch._dynamo.reset()
        free()
        before = allocated(self.device)
        inputs = case.make(self.stock, self.device, self.dtype)
        inputs_bytes = allocated(self.device) - before
        # This run makes torch's first allocations and gives the result that the others are compared with. It is needed
        # even if eager is not timed, because only compared results are timed.
        eager = case.step(self.stock, self.stock, inputs, False).clone()
        if eager.is_floating_point() and not torch.isfinite(eager).all():
            raise RuntimeError(f"{case.name}: the model as it comes gives what is not finite; its weights are no good")
        steps, abouts = {}, {}
        for name in self.contenders(case):
            if self.over():
                self.skip(case.name, name, "the budget of --seconds was spent")
                continue
            tell(f"{case.name}: {name}, first call")
            try:
                step, result, about = self.prepare(case, name, inputs)
            except Exception as error:  # whoever fails is named, and the others are timed
                self.skip(case.name, name, reason(error), failed=True)
                free()
                continue
            verdict = accuracy.judge(result, eager, exact)
            about["errors"] = verdict.errors
            about["wrong"] = verdict.wrong
            abouts[name] = about
            del result
            if verdict.wrong:
                tell(f"{case.name}: {name} is wrong: {verdict.wrong}")
                del step
            else:
                steps[name] = step
        if self.device == "cuda" and steps:
            self.measure(case, steps, abouts, inputs_bytes)
        shown["contenders"] = [abouts[name] for name in self.contenders(case) if name in abouts]
        return shown

    def measure(self, case: Case, steps, abouts, inputs_bytes: int) -> None:
        tell(f"{case.name}: timing {', '.join(steps)} in turns")
        samples = clock.rounds(steps, self.options.rounds, self.device, seed=len(case.name), over=self.over)
        for name, step in steps.items():
            about = abouts[name]
            about["time_ms"] = clock.summary(samples[name])
            torch.cuda.synchronize()
            start = allocated(self.device)
            torch.cuda.reset_peak_memory_stats()
            step()
            torch.cuda.synchronize()
            passing = torch.cuda.max_memory_allocated() - start
            about["peak_bytes"] = self.weights_bytes + inputs_bytes + about["own_bytes"] + passing
            try:
                profile = trace.profile(step, PROFILED if case.per == "step" else 1)
            except Exception as error:
                tell(f"{case.name}: {name} has no profile: {error}")
                continue
            median = about["time_ms"]["median"]
            idle = max(0.0, median - profile.busy_ms)
            about["profile"] = {
                "launches": profile.launches,
                "busy_ms": profile.busy_ms,
                "host_bound": idle / median,
                "categories_ms": {**profile.categories, "idle": idle},
                "largest": [list(row) for row in profile.largest],
            }

    def skip(self, case: str, contender: str, why: str, failed: bool = False) -> None:
        tell(f"{case}: {contender} {'failed' if failed else 'is skipped'}: {why}")
        self.skipped.append({"case": case, "contender": contender, "why": why, "failed": failed})

    def result(self, cases: List[Dict[str, Any]], finished: bool) -> Dict[str, Any]:
        options, subject = self.options, self.subject
        here = os.path.dirname(os.path.abspath(__file__))
        return {
            "format": report.FORMAT,
            "name": subject.name,
            "title": subject.title,
            "finished": finished,
            "smoke": options.smoke,
            "partial": self.partial(),
            "card": report.card() if self.device == "cuda" else None,
            "versions": report.versions(subject.packages),
            "model": {
                "config_name": options.config,
                "config": subject.config(options.config),
                "weights": os.path.basename(os.path.normpath(options.weights)) if options.weights else "random",
                "parameters": sum(p.numel() for p in self.stock.parameters()),
                "dtype": str(self.dtype).replace("torch.", ""),
                "bytes": self.weights_bytes,
            },
            "kernel": self.kernel_about,
            "compile_mode": options.compile_mode,
            "rounds": options.rounds,
            # The versions and sources of this run, besides the example's own.
            "sources": [os.path.relpath(here, subject.folder).replace(os.sep, "/")],
            "cases": cases,
            "skipped": self.skipped,
        }


def main(subject: Subject, arguments=None) -> int:
    options = options_of(subject, arguments)
    script = os.path.basename(sys.argv[0])
    if options.list:
        for case in options.chosen:
            print(f"{case.name:20} {case.label}")
        return 0
    if not options.dry and not torch.cuda.is_available():
        print(f"{script}: there is no CUDA device, and nothing is timed without one", file=sys.stderr)
        return 1
    run = Run(subject, options)
    cases: List[Dict[str, Any]] = []
    with torch.no_grad():
        try:
            run.start()
        except kernel.NoKernel as error:
            print(f"{script}: {error}", file=sys.stderr)
            return 1
        for case in options.chosen:
            if run.over():
                for name in run.contenders(case):
                    run.skip(case.name, name, "the budget of --seconds was spent")
                continue
            try:
                cases.append(run.case(case, run.exact.get(case.name)))
            except Exception as error:  # the other cases are timed all the same
                traceback.print_exc()
                for name in run.contenders(case):
                    run.skip(case.name, name, reason(error), failed=True)
            free()
            if options.out:
                report.write(options.out, run.result(cases, finished=False))
    result = run.result(cases, finished=True)
    if options.out:
        report.write(options.out, result)
    print(report.table(result))
    where = report.profiles(result)
    if where:
        print(f"\nWhere the time goes, ms:\n\n{where}")
    wrong = [one for case in cases for one in case["contenders"] if one.get("wrong")]
    return 1 if wrong or any(one["failed"] for one in run.skipped) else 0
