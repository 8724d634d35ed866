"""Kernel projects and their cases, as the kernels program binds them. Needs no torch."""

import json
import pathlib
import subprocess

from peers.case import Given


def asked(program, folder, **request):
    """The program's answer to `__worker`: a project with the bound cases of its operations."""
    request = json.dumps({"cases": {"project": str(folder), **request}})
    done = subprocess.run([program, "__worker", request], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip() or json.loads(done.stdout)["error"])
    return json.loads(done.stdout)


class Project:
    """`operations` in kernel.toml's order, `sources` of build.toml."""

    def __init__(self, program, folder, verify=False):
        self.program, self.folder = program, pathlib.Path(folder)
        given = asked(program, folder, verify=verify)
        self.name, self.flags = given["name"], given["flags"]
        self.sources, self.include = given["sources"], [given["folder"], *given["includes"]]
        self.operations = [Operation(self, operation) for operation in given["operations"]]

    def case(self, given):
        made = Given(given)
        made.operation.project = self.name
        return made

    def shaped(self, shapes):
        """Bound cases, each of an operation, a dtype and sizes as `--shape` takes them."""
        return [self.case(given) for given in asked(self.program, self.folder, shapes=shapes)["shaped"]]


class Operation:
    """One launcher: `names` that a case may set, and `tensors` with the formulas of their sizes."""

    def __init__(self, project, given):
        self.project, self.name, self.dtypes = project, given["name"], given["dtypes"]
        self.names, self.tensors = given["names"], given["tensors"]
        self.all = {kind: [project.case(case) for case in given[kind]] for kind in ("bench", "verify")}

    def cases(self, kind):
        """The cases of all `[[operation.KIND]]` tables; those drawn at random are left out."""
        return self.all[kind]


def projects(program, root, verify=False):
    """The projects below a folder by name, and {folder: why not} of those that cannot be read."""
    found, unreadable = [], {}
    for path in sorted(pathlib.Path(root).iterdir()):
        if (path / "kernel.toml").is_file():
            try:
                found.append(Project(program, path, verify))
            except (ValueError, OSError) as error:
                unreadable[path.name] = str(error)
    return found, unreadable
