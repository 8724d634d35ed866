"""Times other implementations beside a project's own, for `kernels bench --against`. Reads one request as JSON from stdin and
writes one answer per line to the original stdout. Everything else that is printed goes to stderr.

A request has the harness's `cases`, `peers` as the user named them, `rounds`, the `library` with the launchers, and the card's
number in `device`. With `dry`, each peer runs once on the CPU and is compared, and nothing is timed.
"""

import argparse
import gc
import json
import os
import sys
import warnings

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(answer):
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


class Row:
    """A case with the adapter of its operation, or the reason why there is none."""

    def __init__(self, case):
        from peers.library import Skip
        from peers.operations import of_case

        self.case, self.adapter, self.unknown = case, None, None
        try:
            self.adapter = of_case(case)
        except Skip as error:
            self.unknown = str(error)

    def __str__(self):
        return f"{self.case.operation.name} {self.case.label}"


class Built:
    """The project's library, loaded when it is first needed."""

    def __init__(self, path):
        self.path, self.library = path, None

    def launcher(self, operation):
        from peers.library import launcher, opened

        self.library = self.library or opened(self.path)
        return launcher(self.library, operation)


def ruler_of(device, version):
    """The harness's clock from its Python module, or None, and a remark for the user."""
    try:
        import kernels_harness
    except ImportError:
        return None, None
    try:
        ruler = kernels_harness.Ruler(device)
    except Exception as error:
        return None, f"the module kernels_harness is there, and its clock is not: {error}"
    if kernels_harness.__version__ != version:
        return ruler, f"the module kernels_harness is {kernels_harness.__version__}, and this program {version}"
    return ruler, None


def why_not(name, skipped):
    """Why a peer has no time: its own reason, or those of its variants."""
    if name in skipped:
        return skipped[name]
    reasons = [f"{label}: {reason}" for label, reason in skipped.items() if label.startswith(f"{name} (")]
    return "; ".join(reasons) or "nothing came of it"


def told(timed, peers, clock, remarks):
    """The answer for a row."""
    ours = timed.chosen.get("kernels")
    remarks = [*remarks, *timed.remarks]
    if ours is None:
        remarks.append(f"ours was not timed there: {why_not('kernels', timed.skipped)}")
    elif ours.fault:
        remarks.append(f"ours is wrong there: {ours.fault}")
    if "check" in timed.skipped:
        remarks.append(f"results were not checked there: {timed.skipped['check']}")
    beside = []
    for name in peers:
        candidate = timed.chosen.get(name)
        if candidate is None:
            beside.append({"name": name, "skipped": why_not(name, timed.skipped)})
            continue
        beside.append(
            {
                "name": name,
                "time": candidate.as_spread(),
                "chosen": candidate.label if candidate.label != name else None,
                "wrong": candidate.fault,
                "other": candidate.other,
            }
        )
    return {
        "clock": clock,
        "kernel": ours.as_spread() if ours else None,
        "copy": timed.copy,
        "peers": beside,
        "remarks": remarks,
    }


def dry(args, row, peers):
    """Runs each peer once on the CPU, to see which ones work and which are right."""
    from peers.library import Skip
    from peers.peer_modules import described
    from peers.row import Run

    run, beside = Run(args, row, {}, None), []
    for name in peers:
        try:
            for candidate in run.make(name):
                fault = candidate.fault_of(0, candidate.call(0), run.wanted, row.case.dtype)
                beside.append({"name": name, "wrong": fault, "other": candidate.other})
        except Skip as error:
            beside.append({"name": name, "skipped": str(error)})
        except Exception as error:
            beside.append({"name": name, "skipped": described(error)})
    return {"clock": "none", "kernel": None, "copy": None, "peers": beside, "remarks": [row.unknown] if row.unknown else []}


def main():
    request = json.loads(sys.stdin.readline())
    warnings.filterwarnings("ignore")
    import torch

    from peers.case import Given
    from peers.peer_modules import described
    from peers.row import time_row
    from peers.through_inductor import configure

    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    configure()
    peers, device = request["peers"], request["device"]
    args = argparse.Namespace(
        names=["kernels", *peers], wanted=["kernels", *peers], everything=True, rounds=max(20, request["rounds"]),
        seconds=float("inf"), blog=None, quack=None, ruler=None, device="cpu" if request.get("dry") else "cuda",
    )
    remarks, on = [], None
    if args.device == "cuda":
        if not torch.cuda.is_available():
            raise SystemExit(f"torch {torch.__version__} in {sys.executable} finds no card")
        torch.cuda.set_device(device)
        args.ruler, remark = ruler_of(device, request["version"])
        remarks = [remark] if remark else []
        on = torch.cuda.Stream()
    libraries = Built(request["library"])
    say({"ready": {"torch": torch.__version__, "clock": "kernels" if args.ruler else "torch"}})
    for number, given in enumerate(request["cases"]):
        row = Row(Given(given))
        try:
            if args.device == "cpu":
                answer = dry(args, row, peers)
            else:
                answer = told(time_row(args, row, {}, libraries, on), peers, "kernels" if args.ruler else "torch", remarks)
            say({"row": number, "against": answer})
        except Exception as error:  # the other rows still count
            say({"row": number, "error": described(error)})
        del row
        gc.collect()
        if args.device == "cuda":
            torch.cuda.empty_cache()
    say({"done": True})


if __name__ == "__main__":
    main()
