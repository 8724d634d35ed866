"""Calls the functions of a published kernel, for `kernels hub verify --kernel-toml`. The first line on stdin names the kernel;
each following line has a case and the file with its slot, which receives the results. Answers go to the original stdout, one
per line; everything else that is printed goes to stderr. The kernel's code is untrusted, so this process neither draws inputs
nor judges results.
"""

import json
import os
import pathlib
import sys
import warnings

from driver import say


class Stage:
    """The kernel, and where it runs."""

    def __init__(self, request):
        import torch

        from peers.hub import loaded
        from peers.library import Skip

        variant, self.device, name = pathlib.Path(request["variant"]), "cpu", "the CPU"
        if request["device"] is not None:
            if not torch.cuda.is_available():
                raise Skip(f"torch {torch.__version__} in {sys.executable} finds no card")
            torch.cuda.set_device(request["device"])
            self.device, name = "cuda", torch.cuda.get_device_name()
        self.name, self.module = variant.name, loaded(request["where"])
        found = pathlib.Path(self.module.__file__).resolve().parent
        if found != variant.resolve():
            raise Skip(f"the Hub's library loads {found.name} instead")
        import kernels

        held = os.environ.get("KERNELS_HELD", "")
        self.ready = {"device": name, "torch": torch.__version__, "library": kernels.__version__, "held": held}

    def finish(self):
        import torch

        if self.device == "cuda":
            torch.cuda.synchronize()

    def call(self, case, slot, starts):
        """Calls the function of the case's operation on its tensors, which lie in the slot, a run of bytes on the device."""
        import torch

        from peers.hub import binding
        from peers.library import Skip
        from peers.tensors import torch_dtype

        views = {}
        for (name, spec), start in zip(case.tensors.items(), starts, strict=True):
            kind = torch_dtype(spec.dtype)
            span = slot[start : start + spec.span * kind.itemsize].view(kind)
            views[name] = torch.as_strided(span, spec.shape, spec.strides, span.storage_offset())
        called, function, tensors, written, numbers = binding(self.module, self.name, case)
        results = [name for name, spec in case.tensors.items() if spec.role in ("output", "inout")]
        missing = [name for name in results if case.tensors[name].role == "output" and name not in written.values()]
        # Freed memory may hold an earlier result, which a function that writes nothing could return. So memory of the outputs'
        # sizes is filled with the poison, which the red zone before the first tensor holds, and freed.
        poison = slot[0]
        for name in missing:
            torch.empty_like(views[name], memory_format=torch.contiguous_format).view(-1).view(torch.uint8).copy_(poison)
        given = {parameter: views[name] for parameter, name in (tensors | written).items()}
        returned = function(**given, **numbers)
        returned = () if returned is None else tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
        into = missing if len(returned) == len(missing) else results
        if len(returned) != len(into) and not missing:
            returned = ()  # it has written everything where it was told to
        elif len(returned) != len(into):
            raise Skip(f"{called} returns {len(returned)} tensors, and {case.operation.name} has the outputs {', '.join(results)}")
        for name, tensor in zip(into, returned, strict=False):
            view = views[name]
            if tensor.dtype != view.dtype or tensor.numel() != view.numel():
                raise Skip(f"{called} returns {tensor.dtype} {list(tensor.shape)} for {name}, {view.dtype} {list(view.shape)}")
            if tensor.data_ptr() != view.data_ptr():
                view.copy_(tensor.reshape(view.shape))


def answer(stage, request):
    import torch

    from peers.case import Given
    from peers.hub import function_of
    from peers.library import Skip
    from peers.peer_modules import described

    case = Given(request["case"])
    try:
        function_of(stage.module, stage.name, case.operation.name)
    except Skip as why:
        return {"absent": str(why)}
    whole = torch.from_file(request["file"], shared=True, size=request["bytes"], dtype=torch.uint8)
    slot = whole.to(stage.device)
    try:
        stage.call(case, slot, request["starts"])
        stage.finish()
    except Exception as error:
        why = str(error) if isinstance(error, Skip) else described(error)
        try:
            stage.finish()
        except Exception as error:
            return {"lost": described(error)}
        return {"refused": why}
    if slot.data_ptr() != whole.data_ptr():
        whole.copy_(slot)
    return "done"


def main():
    warnings.filterwarnings("ignore")
    from peers.library import Skip
    from peers.peer_modules import described

    try:
        stage = Stage(json.loads(sys.stdin.readline()))
    except Exception as error:
        return say({"cannot": str(error) if isinstance(error, Skip) else described(error)})
    import torch

    say({"ready": stage.ready})
    with torch.no_grad():
        for line in sys.stdin:
            say(answer(stage, json.loads(line)))


if __name__ == "__main__":
    main()
