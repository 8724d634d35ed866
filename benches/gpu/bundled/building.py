"""Builds the projects' launchers as shared objects. All nvcc processes start at once; each is awaited on first use."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import tempfile

from peers.library import Skip, has, launcher, opened


def nvcc():
    """The compiler: CUDA_HOME's, else the one in PATH; and what it needs to link where it comes from pip's wheels."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    program = pathlib.Path(home or "/", "bin", "nvcc")
    program = program if home and program.is_file() else shutil.which("nvcc")
    if not program:
        raise Skip("no nvcc in CUDA_HOME or PATH")
    beside = pathlib.Path(program).resolve().parent.parent / "lib"
    return str(program), [f"-L{beside}"] if (beside / "libcudart_static.a").is_file() else []


class Building:
    """The shared object of one project while it is compiled."""

    def __init__(self, project, folder, arch):
        self.project, self.steps, self.error = project, [], None
        self.path = pathlib.Path(folder) / f"lib{project.name}.so"
        try:
            program, self.link = nvcc()
        except Skip as error:
            self.error = str(error)
            return
        flags = ["-O3", "-std=c++17", "-gencode", f"arch=compute_{arch},code=sm_{arch}", "-Xcompiler", "-fPIC", *project.flags]
        self.program = [program, *flags, *(f"-I{path}" for path in project.include)]
        for index, source in enumerate(project.sources):
            made = pathlib.Path(folder) / f"{project.name}-{index}.o"
            log = tempfile.TemporaryFile("w+")
            command = [*self.program, "-c", "-o", str(made), str(source)]
            self.steps.append((made, log, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)))

    def library(self):
        """Waits, links and opens it. Raises Skip, the same each time."""
        if self.error is None and not isinstance(self.steps, ctypes.CDLL):
            try:
                self.steps = self.linked()
            except (Skip, OSError) as error:
                self.error = f"{self.project.name} was not built: {error}"
        if self.error:
            raise Skip(self.error)
        return self.steps

    def linked(self):
        for made, log, process in self.steps:
            if process.wait():
                log.seek(0)
                raise Skip(f"nvcc {made.stem}: {' '.join(log.read().split())[:300]}")
        objects = [str(made) for made, _, _ in self.steps]
        done = subprocess.run(
            [*self.program, "-shared", *self.link, "-o", str(self.path), *objects], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Skip(f"nvcc: {' '.join(done.stderr.split())[:300]}")
        return opened(self.path)


class Libraries:
    """Where launchers are: in libraries that were given, else in those of their projects, built here."""

    def __init__(self, projects, given, folder, arch):
        self.given = [opened(path) for path in given]
        folder = folder or tempfile.mkdtemp(prefix="peers-build-")
        os.makedirs(folder, exist_ok=True)
        self.building = {
            project.name: Building(project, folder, arch)
            for project in projects
            if not all(any(has(library, case.operation.launcher) for library in self.given) for one in project.operations for case in one.cases("bench"))
        }

    def launcher(self, operation):
        """The operation's launcher; Skip where it is not built."""
        for library in self.given:
            if has(library, operation.launcher):
                return launcher(library, operation)
        return launcher(self.building[operation.project].library(), operation)

    def wait(self):
        """Waits for all compilers, so that none runs beside a measurement. Answers what was not built."""
        failed = []
        for building in self.building.values():
            try:
                building.library()
            except Skip as error:
                failed.append(str(error))
        return failed
