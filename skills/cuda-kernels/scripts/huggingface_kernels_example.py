#!/usr/bin/env python3
"""Load a kernel with the `kernels` library (0.17): from a local build, from the Hub, and into a model's layers.

    python huggingface_kernels_example.py                                   # a throw-away local kernel, every way
    python huggingface_kernels_example.py --path my-kernel/build --check-rms-norm --layer RMSNorm
    python huggingface_kernels_example.py --repo kernels-community/relu --version 1 --download

No network without --download: HF_HUB_OFFLINE=1 is set before the library is imported, and --repo is looked up in the
cache. The ways, each checked against float64:
    get_local_kernel(Path)            a build folder, or the project that holds build/; a str is no Path
    get_kernel(repo, version=N)       from the Hub; exactly one of version and revision. LOCAL_KERNELS=repo=folder puts a
                                      local build in its place, for programs that name the repository
    LayerRepository, kernelize        the forward of modules whose class has a layer name is replaced by the mapping's layer.
                                      Its default is to fall back in silence; use_fallback=False raises instead
Exit code: 0 all hold, 1 the kernel is not there or wrong, 2 torch, kernels or a card is missing, or wrong usage."""
import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

torch = kernels = None  # imported by main(), so that --help needs nothing
DEMO = {
    "__init__.py": """
import torch


def rms_norm(x, weight=None, eps=1e-6):
    n = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (n if weight is None else n * weight.float()).to(x.dtype)


from . import layers  # noqa: E402
""",
    # A layer for kernelize has no __init__ and no members but these two flags; its forward has the model's signature, and
    # runs with the model's module as self. Imports inside a kernel are relative: it has no name of its own.
    "layers/__init__.py": """
import torch

from .. import rms_norm


class RMSNorm(torch.nn.Module):
    can_torch_compile = True
    has_backward = True

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)
""",
}


def die(message):
    print("error: " + message, file=sys.stderr)
    raise SystemExit(2)


def stdout_alone():
    """Where --json writes. What a candidate prints, C's and a kernel's printf too, goes to stderr from here on."""
    out, sys.stdout = sys.stdout, sys.stderr
    if out is sys.__stdout__:
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
    return out


def write_demo(folder):
    """A kernel without compiled code. The variant's name follows torch's build, not the machine."""
    backend = "cuda" if torch.version.cuda else "rocm" if torch.version.hip else "cpu"
    variant = folder / "build" / ("torch-" + backend)
    for name, text in DEMO.items():
        (variant / name).parent.mkdir(parents=True, exist_ok=True)
        (variant / name).write_text(text)
    (variant / "metadata.json").write_text(json.dumps({
        "name": "demo", "id": "_demo_0000000", "version": 1, "license": "Apache-2.0", "python-depends": [],
        "backend": {"type": backend}}))
    return folder


def error_of(function, device, dtype):
    """Largest relative error of an element of rms_norm(x, weight, eps) against float64."""
    x, w = torch.randn(33, 256, device=device).to(dtype), (torch.rand(256, device=device) + 0.5).to(dtype)
    ref = x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + 1e-6) * w.double()
    got = function(x, w, 1e-6)
    if (got.shape, got.dtype) != (x.shape, x.dtype):
        return 1e9
    off = ((got.double() - ref).abs() / ref.abs().clamp_min(torch.finfo(dtype).tiny)).max().item()
    return off if off < 1e9 else 1e9  # JSON has no NaN


def through_kernelize(repository, device, dtype, mode):
    """rms_norm by a module that kernelize has given the repository's layer."""
    class Norm(torch.nn.RMSNorm):
        def forward(self, x):
            raise RuntimeError("the stock forward ran: kernelize replaced nothing")

    # As a decorator where the class is yours: @kernels.use_kernel_forward_from_hub("ExampleNorm").
    kernels.replace_kernel_forward_from_hub(Norm, "ExampleNorm")
    model = torch.nn.Sequential(Norm(256, eps=1e-6)).to(device, dtype)
    with kernels.use_kernel_mapping({"ExampleNorm": {device: repository}}):
        kernels.kernelize(model, mode=mode, device=device, use_fallback=False)

    def function(x, w, eps):
        with torch.no_grad():
            model[0].weight.copy_(w)
            return model(x)

    return function


def describe(module):
    layers = getattr(module, "layers", None)
    return {
        "file": module.__file__,
        "functions": sorted(n for n in dir(module) if n[:1] != "_" and callable(getattr(module, n))),
        "layers": sorted(n for n in dir(layers) if isinstance(getattr(layers, n), type) and n[:1].isupper()),
    }


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group()
    what.add_argument("--path", help="a build folder, or the project that holds build/")
    what.add_argument("--repo", metavar="OWNER/NAME", help="a Hub repository, from the cache unless --download")
    p.add_argument("--version", type=int, help="of --repo, or:")
    p.add_argument("--revision", help="a branch, tag or commit of --repo")
    p.add_argument("--trust-remote-code", action="store_true", help="for publishers that the library does not trust")
    p.add_argument("--download", action="store_true", help="allow the network for --repo")
    p.add_argument("--check-rms-norm", action="store_true", help="call the kernel's rms_norm(x, weight, eps)")
    p.add_argument(
        "--layer", metavar="NAME", help="kernelize a torch.nn.RMSNorm with this layer of the kernel: RMSNorm"
    )
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--cpu", action="store_true", help="without a card")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    a = p.parse_args()
    if a.repo and (a.version is None) == (a.revision is None):
        p.error("--repo wants --version or --revision, and not both")
    if not a.repo and (a.download or a.version is not None or a.revision):
        p.error("--download, --version and --revision belong to --repo")
    if not (a.path or a.repo) and (a.layer or a.check_rms_norm):
        p.error("--layer and --check-rms-norm want --path or --repo")
    return a


def main():
    global torch, kernels
    a = arguments()
    if not a.download:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported
    try:
        import torch
    except ImportError:
        die("torch is not installed for {} (pip install torch)".format(sys.executable))
    try:
        import kernels
    except ImportError as e:
        die("the kernels library is missing ({}); pip install kernels".format(e))
    if (a.layer or a.check_rms_norm) and not a.cpu and not torch.cuda.is_available():
        die(
            "no CUDA device is visible to torch {}; without --check-rms-norm and --layer a kernel is only loaded".format(
                torch.__version__
            )
        )
    out = stdout_alone() if a.json else None
    device = "cuda" if torch.cuda.is_available() and not a.cpu else "cpu"
    dtype, mode = getattr(torch, a.dtype), kernels.Mode.INFERENCE | kernels.Mode.TORCH_COMPILE
    torch.manual_seed(a.seed)
    report = {
        "script": "huggingface_kernels_example",
        "verdict": "PASS",
        "failures": [],
        "kernels": kernels.__version__,
        "torch": torch.__version__,
        "device": device,
        "dtype": a.dtype,
        "offline": not a.download,
        "relative_error": {},
    }

    def check(way, function):
        error = report["relative_error"][way] = error_of(function, device, dtype)
        if not error <= torch.finfo(dtype).eps + 4e-6:  # one rounding, and fp32 before it
            report["failures"].append("{}: relative error {:.2g}".format(way, error))

    try:
        if a.path or a.repo:
            if a.path:
                folder = Path(a.path).resolve()
                module, repository = (
                    kernels.get_local_kernel(folder),
                    kernels.LocalLayerRepository(folder, layer_name=a.layer),
                )
            else:
                which = dict(version=a.version, revision=a.revision, trust_remote_code=a.trust_remote_code)
                module = kernels.get_kernel(a.repo, **which)
                repository = kernels.LayerRepository(a.repo, layer_name=a.layer, **which)
            report["kernel"] = describe(module)
            if a.check_rms_norm:
                check("rms_norm", module.rms_norm)
            if a.layer:
                check("kernelize", through_kernelize(repository, device, dtype, mode))
        else:
            with tempfile.TemporaryDirectory() as folder:
                root = write_demo(Path(folder))
                module = kernels.get_local_kernel(root)
                report["kernel"] = describe(module)
                check("get_local_kernel", module.rms_norm)
                repository = kernels.LocalLayerRepository(root, layer_name="RMSNorm")
                check("LocalLayerRepository", through_kernelize(repository, device, dtype, mode))
                # Who names a Hub repository gets the local build.
                os.environ["LOCAL_KERNELS"] = "example-org/demo={}".format(root)
                check("LOCAL_KERNELS, get_kernel", kernels.get_kernel("example-org/demo", version=1).rms_norm)
                repository = kernels.LayerRepository("example-org/demo", layer_name="RMSNorm", revision="main")
                check("LOCAL_KERNELS, LayerRepository", through_kernelize(repository, device, dtype, mode))
    except Exception as e:
        report["failures"].append("{}: {}".format(type(e).__name__, " ".join(str(e).split())[:500] or "no message"))
    report["verdict"] = "FAIL" if report["failures"] else "PASS"
    if a.json:
        print(json.dumps(report), file=out, flush=True)
    else:
        for key, value in report.items():
            print("{:<16}{}".format(key, value))
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
