"""Runs Python scripts, each in a copy of this process, which has imported torch and the models' libraries: that takes
seconds. No connection can be opened.

    python forked.py MODULE...      stdin: a JSON object a line; stdout: one a line in answer

    {"argv": ["script.py", "--json"], "env": {…}}   →   {"code": 0, "out": "…", "err": "…"}
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import traceback

LIMIT = 600  # seconds


def refuse(*_, **__):
    raise AssertionError("a connection")


def become(argv, env):
    """As if Python had been started with these arguments in this environment."""
    os.environ.clear()
    os.environ.update(env)
    paths = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path]
    for path in paths:  # what lies there hides what was imported
        for name in {os.path.splitext(entry)[0] for entry in os.listdir(path)}:
            for module in [module for module in sys.modules if module.split(".")[0] == name]:
                del sys.modules[module]
    sys.argv, sys.path[:1] = argv, [os.path.dirname(argv[0]), *paths]
    tempfile.tempdir = None
    signal.alarm(LIMIT)
    try:
        runpy.run_path(argv[0], run_name="__main__")
        code = 0
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # C's streams, as at the end of any process
    os._exit(code if isinstance(code, int) else int(code is not None))  # freeing what was imported takes a second


def run(argv, env):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            become(argv, env)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return {"code": code, "out": out.read().decode(), "err": err.read().decode()}


if __name__ == "__main__":
    socket.socket.connect = socket.getaddrinfo = refuse
    for name in sys.argv[1:]:
        with contextlib.suppress(ImportError):  # the script will say so
            importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(run(**json.loads(line))), flush=True)
