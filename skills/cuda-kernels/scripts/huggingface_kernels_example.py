#!/usr/bin/env python3
"""Load a kernel with the `kernels` package: a local build, a cached or downloaded Hub repository, or a demonstration.

Offline unless --download is given: HF_HUB_OFFLINE=1 is set before anything is imported.

    python huggingface_kernels_example.py                     # demonstration on a throw-away local kernel
    python huggingface_kernels_example.py --path build        # your build folder, or the project that holds it
    python huggingface_kernels_example.py --repo kernels-community/relu --version 1 [--download]
    python huggingface_kernels_example.py --path . --check-rms-norm    # call rms_norm(x, weight, eps), check with fp64

The demonstration writes a pure Python kernel to a temporary folder and loads it three ways: get_local_kernel; get_kernel
with a LOCAL_KERNELS override, as a program that names a Hub repository would see your local build; and kernelize with a
LocalLayerRepository. Each result is checked. Exit code 0: done; 1: it loaded but a check failed, or it did not load;
2: torch or kernels is missing, or bad usage."""
import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

DEMO_INIT = '''
import torch
from . import layers


def rms_norm(x, weight=None, eps=1e-6):
    n = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (n if weight is None else n * weight.float()).to(x.dtype)


__all__ = ["rms_norm", "layers"]
'''
# A layer for kernelize: no __init__, no members of its own but these two flags, forward with the model's signature.
DEMO_LAYERS = '''
import torch


class RMSNorm(torch.nn.Module):
    can_torch_compile = True
    has_backward = True

    def forward(self, hidden_states):
        from . import rms_norm
        return rms_norm(hidden_states, self.weight, self.variance_epsilon)
'''


def die(message, code=2):
    print("error: " + message, file=sys.stderr)
    raise SystemExit(code)


def write_demo(folder, backend):
    variant = folder / "build" / ("torch-" + backend)  # a variant without compiled code: no torch or CUDA version in it
    (variant / "layers").mkdir(parents=True)
    (variant / "__init__.py").write_text(DEMO_INIT)
    (variant / "layers" / "__init__.py").write_text(DEMO_LAYERS.replace("from . import", "from .. import"))
    (variant / "metadata.json").write_text(json.dumps({
        "name": "demo", "id": "_demo_0000000", "version": 1, "license": "Apache-2.0", "python-depends": [],
        "backend": {"type": backend}}))
    return folder


def rms_norm_error(torch, function, device, dtype):
    """Relative error against fp64 on random input and weight; the bound is that of one rounding to dtype."""
    x = torch.randn(33, 256, device=device).to(dtype)
    w = (torch.rand(256, device=device) + 0.5).to(dtype)
    ref = x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + 1e-6) * w.double()
    y = function(x, w, 1e-6).double()
    error = (torch.linalg.vector_norm(y - ref) / torch.linalg.vector_norm(ref)).item()
    return error, error <= torch.finfo(dtype).eps


def describe(module):
    return {"module": module.__name__, "file": module.__file__, "all": list(getattr(module, "__all__", [])),
            "layers": sorted(n for n in dir(getattr(module, "layers", None)) if n[:1].isupper())}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group()
    what.add_argument("--path", help="a local build folder, variant folder, or the project that holds build/")
    what.add_argument("--repo", metavar="ORG/NAME", help="a Hub repository; from the cache unless --download")
    p.add_argument("--version", type=int, help="major version of --repo (or give --revision)")
    p.add_argument("--revision", help="branch, tag or commit of --repo (or give --version)")
    p.add_argument("--trust-remote-code", action="store_true", help="needed for publishers that are not on the trusted list")
    p.add_argument("--download", action="store_true", help="allow the network for --repo")
    p.add_argument("--check-rms-norm", action="store_true", help="call the kernel's rms_norm(x, weight, eps) on the card")
    p.add_argument("--dtype", default="bfloat16", choices=["float32", "float16", "bfloat16"])
    p.add_argument("--json", action="store_true", help="one JSON object on stdout")
    a = p.parse_args()
    if a.repo and (a.version is None) == (a.revision is None):
        p.error("--repo needs exactly one of --version and --revision")
    if a.download and not a.repo:
        p.error("--download goes with --repo")
    if not a.download:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported
    try:
        import torch
    except ImportError:
        die("torch is not installed (pip install torch)")
    try:
        import kernels
    except ImportError as e:
        die("the kernels package is not usable here ({}); pip install kernels".format(e))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if a.check_rms_norm and device == "cpu":
        die("no CUDA device is visible to torch {} for --check-rms-norm".format(torch.__version__))
    dtype = getattr(torch, a.dtype)
    torch.manual_seed(0)
    result = {"kernels": kernels.__version__, "torch": torch.__version__, "device": device, "offline": not a.download}
    ok = True

    def check(name, function):
        nonlocal ok
        error, good = rms_norm_error(torch, function, device, dtype)
        result.setdefault("checks", {})[name] = {"relative_error": error, "ok": good}
        ok = ok and good

    try:
        if a.path or a.repo:
            if a.path:
                module = kernels.get_local_kernel(Path(a.path))
            else:
                module = kernels.get_kernel(a.repo, version=a.version, revision=a.revision,
                                            trust_remote_code=a.trust_remote_code)
            result["kernel"] = describe(module)
            if a.check_rms_norm:
                check("rms_norm", module.rms_norm)
        else:
            with tempfile.TemporaryDirectory() as folder:
                backend = "cuda" if torch.version.cuda else "rocm" if torch.version.hip else "cpu"
                root = write_demo(Path(folder), backend)  # the variant follows torch's build, not the machine
                module = kernels.get_local_kernel(root)
                result["kernel"] = describe(module)
                check("get_local_kernel", module.rms_norm)

                # A program asks for a Hub repository; the environment points that name at the local build.
                os.environ["LOCAL_KERNELS"] = "example-org/demo={}".format(root)
                named = kernels.get_kernel("example-org/demo", version=1)
                check("LOCAL_KERNELS", named.rms_norm)

                # kernelize: replace the forward of layers that carry a name, by the kernel's layer of a mapping.
                @kernels.use_kernel_forward_from_hub("DemoRMSNorm")
                class Norm(torch.nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.weight = torch.nn.Parameter(torch.rand(256) + 0.5)
                        self.variance_epsilon = 1e-6

                    def forward(self, hidden_states):
                        raise RuntimeError("the stock forward ran: kernelize replaced nothing")

                model = torch.nn.Sequential(Norm()).to(device, dtype)
                mapping = {"DemoRMSNorm": {device: kernels.LocalLayerRepository(root, layer_name="RMSNorm")}}
                with kernels.use_kernel_mapping(mapping):
                    kernels.kernelize(model, mode=kernels.Mode.INFERENCE, device=device, use_fallback=False)

                def through_model(x, w, eps):
                    with torch.no_grad():
                        model[0].weight.copy_(w)
                        return model(x)

                check("kernelize", through_model)
    except Exception as e:
        die("{}: {}".format(type(e).__name__, str(e).strip().splitlines()[0] if str(e).strip() else "no message"), 1)

    result["ok"] = ok
    if a.json:
        print(json.dumps(result))
    else:
        for k, v in result.items():
            print("{:<12} {}".format(k, v))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
