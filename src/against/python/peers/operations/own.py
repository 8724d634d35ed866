"""An operation of none of the families, computed by the project's own Python reference: the right result in fp64, and in the
case's own type a formula for torch and torch.compile."""

import importlib.util
import inspect
import pathlib
import sys

from ..library import Skip
from ..peer_modules import described
from .adapter import Adapter, wide


class Own(Adapter):
    """`case.reference` has the file and the function; it takes the inputs and values by name."""

    # How often intermediate results are rounded is unknown.
    rounds = own_rounds = 3.0
    eager = "reference"

    def __init__(self, case):
        super().__init__(case)
        self.outputs = tuple(name for name, spec in case.tensors.items() if spec.role in ("output", "inout"))
        self.inputs = [name for name, spec in case.tensors.items() if spec.role in ("input", "inout")]
        path = pathlib.Path(case.reference["file"])
        try:
            spec = importlib.util.spec_from_file_location("reference", path)
            module = importlib.util.module_from_spec(spec)
            # torch.compile imports the module of a function that it traces by its name.
            sys.modules[spec.name] = module
            sys.path.append(str(path.parent))
            spec.loader.exec_module(module)
            self.function = getattr(module, case.reference["function"])
        except Exception as error:
            raise Skip(f"{path}: {described(error)}") from error
        finally:
            if str(path.parent) in sys.path:
                sys.path.remove(str(path.parent))
        parameters = inspect.signature(self.function).parameters
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        self.takes = None if takes_all else frozenset(parameters)

    def called(self, tensors):
        named = {**self.case.all, **tensors}
        if self.takes is not None:
            named = {name: value for name, value in named.items() if name in self.takes}
        found = self.function(**named)
        return tuple(found) if isinstance(found, (tuple, list)) else (found,)

    def reference(self, t):
        return dict(zip(self.outputs, self.called({name: wide(tensor) for name, tensor in t.items()})))

    def given(self, t):
        return tuple(t[name] for name in self.inputs)

    def formulas(self):
        names, called = self.inputs, self.called

        def reference(*given):
            return called(dict(zip(names, given)))

        return {"reference": reference}
