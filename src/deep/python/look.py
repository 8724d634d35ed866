"""Parses Python and looks up imports. Reads a request from stdin, and writes one line of JSON per answer.

Nothing of the skill is executed or imported. A package of this Python is imported only if its source does not show whether
it has a name (`from torch import nn`), and then without the skill's folder in the search path.
"""
import sys

sys.path[:] = [p for p in sys.path if p]  # with -c, an empty entry stands for the current folder
import ast  # noqa: E402
import importlib  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import textwrap  # noqa: E402
import warnings  # noqa: E402
from importlib.machinery import PathFinder  # noqa: E402

# What an import prints must not be taken for an answer.
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

request = json.load(sys.stdin)
skill = request["skill"] and os.path.realpath(request["skill"])


def lies_in_skill(path):
    real = os.path.realpath(path)
    return bool(skill) and (real == skill or real.startswith(skill + os.sep))


sys.path[:] = [p for p in sys.path if not lies_in_skill(p)]

# Modules of the standard library that have side effects when imported.
LIVELY = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "test", "tkinter", "lib2to3", "__main__", "__phello__"}
STDLIB = set(getattr(sys, "stdlib_module_names", ())) | set(sys.builtin_module_names)


def answer(**fields):
    answers.write(json.dumps(fields) + "\n")
    answers.flush()


def walk(statements, names):
    """Collects the names that a module's top level binds; returns whether there may be others."""
    is_open = False
    for node in statements:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            is_open |= node.name == "__getattr__"
        elif isinstance(node, ast.Import):
            names.update((a.asname or a.name).split(".")[0] for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(a.asname or a.name for a in node.names)
            is_open |= any(a.name == "*" for a in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            is_open |= walk(node.orelse, names)
        else:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    names.add(inner.id)
            for field in ("body", "orelse", "finalbody", "handlers"):
                below = getattr(node, field, None)
                if isinstance(below, list):
                    for one in below:
                        if isinstance(one, ast.ExceptHandler):
                            is_open |= walk(one.body, names)
                    is_open |= walk([one for one in below if isinstance(one, ast.stmt)], names)
    return is_open


def names_of(text):
    """The names in a module's source, and whether there may be others; None if it does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = {"__name__", "__doc__", "__file__", "__path__", "__spec__", "__dict__", "__all__", "__version__"}
    if "__version__" not in text:
        names.discard("__version__")
    is_open = walk(tree.body, names) or "globals()" in text or "sys.modules[" in text
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            names.update(node.names)
    return names, is_open


specs = {}


def spec_of(name):
    """The spec of a module, found without importing its parent packages."""
    if name not in specs:
        head, _, last = name.rpartition(".")
        try:
            if not head:
                specs[name] = importlib.util.find_spec(name)
            else:
                above = spec_of(head)
                places = above and above.submodule_search_locations
                specs[name] = PathFinder.find_spec(name, list(places)) if places else None
        except (ImportError, ValueError, AttributeError):
            specs[name] = None
    return specs[name]


sources = {}


def source_names(spec):
    origin = spec.origin
    if origin not in sources:
        found = None
        if origin and origin.endswith(".py"):
            try:
                with open(origin, encoding="utf-8") as file:
                    found = names_of(file.read())
            except (OSError, UnicodeDecodeError):
                pass
        sources[origin] = found
    return sources[origin]


def version_of(top):
    try:
        from importlib.metadata import version

        return " " + version(top)
    except Exception:
        return ""


def title(top):
    return f"Python {sys.version.split()[0]}" if top in STDLIB else top + version_of(top)


local = {}  # the skill's own modules: name -> (names, open), or None if the source is not known
for name, text in request["modules"].items():
    local[name] = names_of(text) if text is not None else None

later = {}  # (module, name) -> [(id, line)]


def look_up(item, line, module, names):
    """Checks an import of `module`, and of `names` from it."""
    top = module.split(".")[0]
    if module in local or top in local:
        known = local.get(module)
        for name in names:
            if known and not known[1] and name not in known[0] and f"{module}.{name}" not in local:
                answer(id=item, line=line, state="wrong", message=f"the skill's own {module} has no {name}")
                return
        answer(id=item, line=line, state="ok")
        return
    spec = spec_of(top)
    if spec is not None and any(lies_in_skill(p) for p in [spec.origin or "", *(spec.submodule_search_locations or [])] if p):
        answer(id=item, line=line, state="ok")
        return
    if spec is None:
        if top in STDLIB or top in request["stdlib"]:
            answer(id=item, line=line, state="wrong", message=f"{title(top) if top in STDLIB else title('sys')} has no module {top}")
        else:
            answer(id=item, line=line, state="missing", module=top)
        return
    below = spec_of(module)
    if below is None:
        later.setdefault((module, None), []).append((item, line))
        for name in names:
            later.setdefault((module, name), []).append((item, line))
        return
    unsure = False
    for name in names:
        if name == "*":
            continue
        known = source_names(below)
        if known and name in known[0]:
            continue
        if below.submodule_search_locations and spec_of(f"{module}.{name}") is not None:
            continue
        if known and not known[1]:
            answer(id=item, line=line, state="wrong", message=f"{module} of {title(top)} has no {name}")
            return
        unsure = True
        later.setdefault((module, name), []).append((item, line))
    if not unsure:
        answer(id=item, line=line, state="ok")


def is_guarded(node):
    """Whether a failed import is caught."""
    caught = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
    for handler in node.handlers:
        if handler.type is None:
            return True
        if any(isinstance(n, ast.Name) and n.id in caught for n in ast.walk(handler.type)):
            return True
    return False


def imports(node, guarded, found):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            found.extend((child.lineno, a.name, [], guarded) for a in child.names)
        elif isinstance(child, ast.ImportFrom):
            if child.level == 0 and child.module:
                found.append((child.lineno, child.module, [a.name for a in child.names], guarded))
        elif isinstance(child, ast.Try) and is_guarded(child):
            for part in child.body:
                imports(ast.Module([part], []), True, found)
            for part in (*child.handlers, *child.orelse, *child.finalbody):
                imports(ast.Module([part], []), guarded, found)
        else:
            imports(child, guarded, found)


def flags_of(tree):
    """The flags of every `add_argument`, as argparse names them, and whether there may be others."""
    flags, uses, is_open = {"-h", "--help"}, False, False
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr in ("add_argument", "option"):
            uses = True
            given = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            is_open |= len(given) < len(node.args)
            for name in given:
                for one in name.split("/") if node.func.attr == "option" else [name]:
                    if one.startswith("-"):
                        flags.add(one)
                        if "BooleanOptionalAction" in ast.dump(node) and one.startswith("--"):
                            flags.add("--no-" + one[2:])
        elif node.func.attr in ("parse_known_args", "add_arguments"):
            is_open = True
    if not uses:
        # It may read sys.argv itself; then its flags are among its strings.
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("-"):
                flags.add(node.value)
        is_open = True
    return sorted(flags), is_open


used = {}  # (module, "a.b") -> [(id, line)]


def uses(item, tree, text):
    """Finds used names of modules: `F.rms_norm` after `import torch.nn.functional as F`."""
    modules, bound = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for a in node.names:
                modules[a.asname or a.name.split(".")[0]] = a.name if a.asname else a.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            bound.update(a.asname or a.name for a in node.names)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            bound.add(node.attr)  # set by this code itself
    inner = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node in inner:
            continue
        names, root = [], node
        while isinstance(root, ast.Attribute):
            inner.add(root)
            names.insert(0, root.attr)
            root = root.value
        if not isinstance(root, ast.Name) or root.id in bound or root.id not in modules:
            continue
        module = modules[root.id]
        # A name that also occurs as a string may be missing: the code may test for it.
        if module.split(".")[0] in local or bound & set(names) or any(f'"{n}"' in text or f"'{n}'" in text for n in names):
            continue
        used.setdefault((module, ".".join(names)), []).append((item, root.lineno))


def resolve(found, names):
    """None, or what is wrong. Each name must exist in a plain module."""
    path = found.__name__
    for name in names:
        if type(found).__name__ not in ("module", "_LazyModule"):
            return None
        try:
            found = getattr(found, name)
        except AttributeError:
            return None if spec_of(f"{path}.{name}") is not None else f"{path} of {title(path.split('.')[0])} has no {name}"
        path = f"{path}.{name}"
    return None


for item in request["items"]:
    number, text = item["id"], item["text"]
    if item["kind"] == "block":
        text = textwrap.dedent(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)
            tree = ast.parse(text, item["name"])
            if item["kind"] == "file":
                compile(text, item["name"], "exec", dont_inherit=True)
    except SyntaxError as error:
        answer(id=number, line=error.lineno or 1, state="syntax", message=error.msg)
        continue
    except (ValueError, RecursionError, MemoryError) as error:
        answer(id=number, line=1, state="syntax", message=str(error) or type(error).__name__)
        continue
    found = []
    try:
        imports(tree, False, found)
        if item["script"]:
            flags, is_open = flags_of(tree)
            mine = sorted({module.split(".")[0] for _, module, _, _ in found})
            answer(id=number, state="flags", flags=flags, open=is_open, imports=mine)
    except RecursionError:
        answer(id=number, line=1, state="syntax", message="is nested too deeply")
        continue
    answer(id=number, state="parsed")
    for line, module, names, guarded in found:
        if not guarded:
            look_up(number, line, module, names)
    uses(number, tree, text)
answer(state="parsing done", version=sys.version.split()[0])

# What only an import shows.
modules = {}


def imported(module):
    """The module; or, if its import fails, whether it is missing, and the error."""
    if module not in modules:
        try:
            modules[module] = importlib.import_module(module)
        except ModuleNotFoundError as error:
            modules[module] = (error.name and (module == error.name or module.startswith(error.name + ".")), error)
        except BaseException as error:  # noqa: B902  a package may do anything
            modules[module] = (False, error)
    return modules[module]


for (module, name), places in sorted(later.items(), key=lambda one: (one[0][0], one[0][1] or "")):
    top = module.split(".")[0]
    state, message = "ok", ""
    if "__main__" in module.split(".") or top in LIVELY:
        state, message = "unsure", f"{module} is not imported to be looked at"
    else:
        found = imported(module)
        if isinstance(found, tuple):
            is_missing, error = found
            if is_missing:
                state, message = "wrong", f"{title(top)} has no module {module}"
                if name is not None:
                    continue  # reported for the module
            else:
                state, message = "unsure", f"importing {module} fails: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        elif name not in (None, "*"):
            try:
                getattr(found, name)
            except AttributeError:
                if spec_of(f"{module}.{name}") is None:
                    state, message = "wrong", f"{module} of {title(top)} has no {name}"
            except BaseException as error:  # noqa: B902
                state, message = "unsure", f"loading {name} of {module} fails: {type(error).__name__}"
    for item, line in places:
        answer(id=item, line=line, state=state, message=message, module=module)
for (module, names), places in sorted(used.items()):
    top = module.split(".")[0]
    spec = spec_of(top)
    if spec is None or "__main__" in module.split(".") or top in LIVELY:
        continue  # reported for its import
    if any(lies_in_skill(p) for p in [spec.origin or "", *(spec.submodule_search_locations or [])] if p):
        continue
    found = imported(module)
    if isinstance(found, tuple):
        continue
    state, message = "ok", ""
    try:
        wrong = resolve(found, names.split("."))
        if wrong:
            state, message = "wrong", wrong
    except BaseException as error:  # noqa: B902
        state, message = "unsure", f"{module}.{names}: {type(error).__name__}"
    for item, line in places:
        answer(id=item, line=line, state=state, message=message, module=top, is_use=True)
answer(state="done")
answers.close()
# Do not wait for threads of imported modules.
os._exit(0)
