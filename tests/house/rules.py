"""
The rules of this code base that common linters do not have. Each is a function from the syntax tree
of one file to findings.

Rules:

* A rule reads syntax only: it does not import the code that it checks.
* A finding is `path:line: what is wrong`, and says what is allowed.
* An exception to a rule is listed here, by name and with its reason, never in the excepted file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("quota", "bundler", "bastion", "launch")

# Pure by design: functions of their arguments, so that tests and the simulation can replay them.
_CORE_NAMES = (
    "spec",
    "catalog",
    "secret_rules",
    "job",
    "array",
    "machine",
    "lifecycle",
    "pool",
    "pool_size",
    "monitor",
    "scheduler",
)
CORE = ("quota/", *(f"bastion/{name}{end}" for name in _CORE_NAMES for end in ("/", ".py")))
# `signal` is not listed: the core may name a signal.
# fmt: off
OUTSIDE_WORLD = frozenset({
    "asyncio", "atexit", "concurrent", "fcntl", "glob", "http", "io", "logging", "mmap",
    "multiprocessing", "os", "psutil", "queue", "random", "resource", "sched", "secrets",
    "select", "selectors", "shutil", "socket", "sqlite3", "ssl", "subprocess",
    "tempfile", "threading", "time", "urllib", "uuid"
})
# fmt: on

# Files that may read a clock or use chance. All others get a Clock, a name or a nonce as argument.
CHANCE = (
    "bastion/clock.py",  # is the clock
    "bastion/__main__.py",  # makes the clock that it hands down
    "bastion/service/",  # the loops: they set their own pace and make nonces
    "bastion/agent/",  # keeper and agent use the clock of their machine
    "bastion/provider/boot/bootstrap.py",  # a program of its own, that knows no Clock
    "bastion/provider/boot/bucket_call.py",  # a part of that program
    "bastion/client/",  # names a request: a ULID is time and chance
    "launch/commands/enter/notebook.py",  # the password of a notebook
    "launch/commands/admin/web.py",  # the token of a page
    "bastion/simulator/engine/fleet.py",  # failures of machines are drawn from a seed
    "bastion/simulator/workload/generate.py",  # arrivals and lengths are drawn from a seed
    "bastion/store/folder/folder_identity.py",  # two folders must not share a token
    "bastion/store/folder/local.py",  # temporary files of many processes must not collide
    "bastion/store/probe.py",  # two probes of one store must not collide
)
# fmt: off
CLOCKS_AND_DICE = frozenset({
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter",
    "time.perf_counter_ns", "time.clock_gettime", "time.clock_gettime_ns", "time.sleep",
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "uuid.uuid1", "uuid.uuid4",
    "os.urandom", "os.getrandom"
})
# fmt: on
DICE = frozenset({"random", "secrets"})

FORBIDDEN_WORDS = frozenset({"manager", "helper", "helpers", "util", "utils", "handler", "impl"})
# Names that a library requires.
GIVEN_NAMES: frozenset[str] = frozenset({"__get_pydantic_core_schema__.handler"})

MAX_FUNCTION_LINES = 70  # a screen (TigerBeetle, TIGER_STYLE.md)
MAX_FILE_LINES = 500

LAYOUT = "bastion/records/keys/layout.py"
KEY_SPELLERS = (
    LAYOUT,
    "bastion/store/probe.py",  # a layer below; it tries a key before anything depends on it
)
KEY = re.compile(
    r"(?:inbox|run|jobs|state|machines|results|launches|view|logs|bundles|history|usage|project-quotas)/"
)

OWN_PROGRAM = "bastion/own_program.py"

ON_MACHINES = ("bastion/agent/", "bastion/logs/")
JOB_FILES = "bastion/agent/machine/job_files.py"
# fmt: off
OPENERS = frozenset({
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "touch",
    "scandir", "walk", "fwalk", "listdir", "iterdir", "glob", "rglob", "copy", "copyfile",
    "copytree", "copy2", "chmod", "mkfifo", "truncate"
})
# fmt: on
# Files that open only paths that no job can write to; the comment names them.
PLAIN_OPENERS = (
    JOB_FILES,  # opens such paths safely
    "bastion/agent/agent_log.py",  # the agent's own log
    "bastion/agent/begin/begin.py",  # the start-up script's folder, which is the agent's own
    "bastion/agent/begin/devices.py",  # the kernel's log
    "bastion/agent/begin/setup_commands.py",  # the start-up script's folder
    "bastion/agent/begin/upgrade.py",  # the start-up script's folder
    "bastion/agent/check/machine_lines.py",  # /proc
    "bastion/agent/cloud/metadata.py",  # URLs
    "bastion/agent/decommission.py",  # the home's own notes
    "bastion/agent/machine/environment_cache.py",  # the cache
    "bastion/agent/machine/health.py",  # /dev/null, /proc
    "bastion/agent/main.py",  # the home's lock, the boot id
    "bastion/agent/setup/python_env.py",  # the cache, and code before a job has run on it
    "bastion/agent/setup/run_as.py",  # the home's folders; a host's, before jobs own it
    "bastion/agent/setup/secret_values.py",  # the folder that an admin fills
    "bastion/agent/machine/stray_processes.py",  # /proc
    "bastion/agent/usage/probe.py",  # /proc, and a file that the agent's starter names
    "bastion/agent/usage/process_groups.py",  # /proc, the cgroup filesystem
    "bastion/agent/usage/sampler.py",  # /proc
    "bastion/agent/keeper/attempt/cgroup.py",  # the cgroup filesystem
    "bastion/agent/keeper/socket/client.py",  # the keeper's own log and spool
    "bastion/agent/keeper/living.py",  # the keeper's lock
    "bastion/agent/keeper/journal.py",  # the journal
    "bastion/agent/keeper/main.py",  # the keeper's own folder
    "bastion/agent/keeper/attempt/process.py",  # /dev/null
    "bastion/agent/keeper/attempt/spool.py",  # the spool
    "bastion/agent/keeper/attempt/stacks.py",  # /proc
    "bastion/agent/keeper/attempt/undo.py",  # /dev/null
)


class Finding(NamedTuple):
    """One broken rule."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        """Return `path:line: what`, which editors parse."""
        return f"{self.path}:{self.line}: {self.what}"


Rule = Callable[[str, ast.Module], Iterator[Finding]]


def core_is_pure(path: str, tree: ast.Module) -> Iterator[Finding]:
    """The core imports no module of the outside world and opens nothing."""
    if not path.startswith(CORE):
        return
    for name, line in _imported(tree):
        if name.partition(".")[0] in OUTSIDE_WORLD or name == "pathlib.Path":
            yield Finding(path, line, f"the core imports {name}; hand it in as an argument")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _dotted(node.func) in {"open", "input", "print"}:
            yield Finding(
                path, node.lineno, f"the core calls {_dotted(node.func)}(); the shell may"
            )


def no_clock_no_chance(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Time and chance are arguments, except in the few files that supply them."""
    if path.startswith(CHANCE):
        return
    for name, line in _imported(tree):
        if name.partition(".")[0] in DICE or name in CLOCKS_AND_DICE:
            yield Finding(path, line, f"imports {name}; take a Clock, a name or a nonce instead")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            named = ".".join(_dotted(node).split(".")[-2:])
            if named in CLOCKS_AND_DICE:
                yield Finding(path, node.lineno, f"uses {named}; take a Clock or a name instead")


def names_say_what(path: str, tree: ast.Module) -> Iterator[Finding]:
    """No name contains Manager, Helper, Util, Handler or Impl."""
    for part in Path(path).with_suffix("").parts:
        if words(part) & FORBIDDEN_WORDS:
            yield Finding(path, 1, f"the name {part!r} says nothing; name the noun")
    for name, line in _defined(tree):
        if words(name.rpartition(".")[2]) & FORBIDDEN_WORDS and name not in GIVEN_NAMES:
            yield Finding(path, line, f"the name {name!r} says nothing; name the noun")


def fits_a_screen(path: str, tree: ast.Module) -> Iterator[Finding]:
    """No function is longer than a screen."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                what = f"{node.name} has {lines} lines; at most {MAX_FUNCTION_LINES}"
                yield Finding(path, node.lineno, what)


def stdout_is_data(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Only the command line writes to standard output; elsewhere `print` names its file."""
    if path.startswith("launch/"):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _dotted(node.func) == "print":
            where = [_dotted(word.value) for word in node.keywords if word.arg == "file"]
            if where in ([], ["sys.stdout"]):
                yield Finding(path, node.lineno, "prints to stdout; only launch/ may")


def keys_are_in_the_layout(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Every key of the bucket is made in one file."""
    if path in KEY_SPELLERS:
        return
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in prose:
            continue
        if isinstance(node.value, str) and KEY.match(node.value):
            yield Finding(path, node.lineno, f"spells the key {node.value!r}; {LAYOUT} does")


def job_files_are_opened_with_care(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Paths that a job can write to are opened by one module only."""
    if not path.startswith(ON_MACHINES) or path in PLAIN_OPENERS:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            # Only the last name: `Path(a, b).open` has no dotted name.
            called = node.func.attr if isinstance(node.func, ast.Attribute) else _dotted(node.func)
            if called in OPENERS:
                what = f"opens by {called}(); {JOB_FILES} does so for what a job may have made"
                yield Finding(path, node.lineno, what)


def own_programs_are_started_one_way(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Only `own_program` runs a module of ours with this Python."""
    if path == OWN_PROGRAM:
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.List | ast.Tuple):
            continue
        within = [*ast.walk(node)]
        is_python = any(_dotted(n) == "sys.executable" for n in within if isinstance(n, ast.expr))
        if is_python and any(isinstance(n, ast.Constant) and n.value == "-m" for n in within):
            yield Finding(path, node.lineno, f"use `own_program` of {OWN_PROGRAM}")


RULES: tuple[Rule, ...] = (
    core_is_pure,
    no_clock_no_chance,
    names_say_what,
    fits_a_screen,
    stdout_is_data,
    keys_are_in_the_layout,
    job_files_are_opened_with_care,
    own_programs_are_started_one_way,
)


def sources() -> list[Path]:
    """Return every Python file of the packages."""
    return sorted(path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py"))


@cache
def trees() -> tuple[tuple[str, ast.Module], ...]:
    """Return path and tree of each file; cached, because parsing takes longer than all rules."""
    files = ((path.relative_to(REPOSITORY).as_posix(), path.read_text()) for path in sources())
    return tuple((name, ast.parse(text)) for name, text in files)


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every imported module and, for `from` imports, every name; also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield every name that the file defines; arguments as `function.argument`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                yield f"{node.name}.{argument.arg}", argument.lineno
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def words(name: str) -> set[str]:
    """Return the words of a name: `LogHandler`, `log_handler` -> {log, handler}."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
