"""
The rules that no linter of others knows, each a function from one file's syntax tree to what is
wrong with it.

Rules:

* A rule sees only syntax: it imports nothing that it checks.
* A finding is `path:line: what is wrong`, and says what is allowed.
* An exception to a rule stands here, by name and with its reason, never in the file that needs it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

HOUSE = Path(__file__).parents[2]
ROOMS = ("quota", "bundler", "bastion", "launch")

# Pure by design: a function of its arguments, so that a simulation and a test can replay it.
_CORE_NAMES = (
    "spec",
    "catalog",
    "secret_rules",
    "job",
    "array",
    "machine",
    "lifecycle",
    "pool",
    "monitor",
    "scheduler",
)
CORE = ("quota/", *(f"bastion/{name}{end}" for name in _CORE_NAMES for end in ("/", ".py")))
# `signal` is not here: the core may call a signal by its name.
# fmt: off
OUTSIDE_WORLD = frozenset({
    "asyncio", "atexit", "concurrent", "fcntl", "glob", "http", "io", "logging", "mmap",
    "multiprocessing", "os", "psutil", "queue", "random", "resource", "sched", "secrets",
    "select", "selectors", "shutil", "socket", "sqlite3", "ssl", "subprocess",
    "tempfile", "threading", "time", "urllib", "uuid"
})
# fmt: on

# Who may read a clock or roll a die. All others are handed a Clock, a name or a nonce.
CHANCE = (
    "bastion/clock.py",  # is the clock
    "bastion/__main__.py",  # makes the clock that it hands down
    "bastion/service/",  # the loops: they pace themselves and name their own epoch
    "bastion/agent/",  # keeper and agent run on a machine's own clock, without the rest of us
    "bastion/client/",  # names a request: a ULID is time and chance
    "bastion/store/folder_identity.py",  # two buckets must not have one token
    "bastion/store/local.py",  # temporary files of many processes must not meet
    "bastion/store/probe.py",  # two probes of one store must not meet
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
# Names that a library makes us use.
GIVEN_NAMES: frozenset[str] = frozenset({"__get_pydantic_core_schema__.handler"})

MAX_FUNCTION_LINES = 70  # a screen (TigerBeetle, TIGER_STYLE.md)
MAX_FILE_LINES = 500

LAYOUT = "bastion/records/layout.py"
KEY_SPELLERS = (
    LAYOUT,
    "bastion/store/probe.py",  # below the layout: it tries a key before anything depends on it
)
KEY = re.compile(
    r"(?:inbox|run|jobs|state|machines|results|launches|view|logs|bundles|history|project-quotas)/"
)


ON_MACHINES = ("bastion/agent/", "bastion/logs/")
JOB_FILES = "bastion/agent/machine/job_files.py"
# fmt: off
OPENERS = frozenset({
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "touch",
    "scandir", "walk", "fwalk", "listdir", "iterdir", "glob", "rglob", "copy", "copyfile",
    "copytree", "copy2", "chmod", "mkfifo", "truncate"
})
# fmt: on
# These open only what no job is given: each by what that is.
PLAIN_OPENERS = (
    JOB_FILES,  # opens it with care
    "bastion/agent/agent_log.py",  # the agent's own log
    "bastion/agent/decommission.py",  # the home's own notes
    "bastion/agent/machine/environment_cache.py",  # the cache
    "bastion/agent/machine/health.py",  # /dev/null, /proc
    "bastion/agent/main.py",  # the home's lock, the boot id
    "bastion/agent/setup/python_env.py",  # the cache, and code before a job has run on it
    "bastion/agent/setup/run_as.py",  # the home's folders, and a host's before it is handed over
    "bastion/agent/setup/secret_values.py",  # the folder that an admin fills
    "bastion/agent/machine/stray_processes.py",  # /proc
    "bastion/agent/keeper/attempt/cgroup.py",  # the kernel's cgroups
    "bastion/agent/keeper/socket/client.py",  # the keeper's own log and spool
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
        """As editors and people read it."""
        return f"{self.path}:{self.line}: {self.what}"


Rule = Callable[[str, ast.Module], Iterator[Finding]]


def core_is_pure(path: str, tree: ast.Module) -> Iterator[Finding]:
    """The core imports nothing of the outside world and opens nothing."""
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
    """Time and chance come in as arguments, but for the few files that fetch them."""
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
    """No name ends its thought in Manager, Helper, Util, Handler or Impl."""
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
    """Every key of the bucket is spelled in one file."""
    if path in KEY_SPELLERS:
        return
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in prose:
            continue
        if isinstance(node.value, str) and KEY.match(node.value):
            yield Finding(path, node.lineno, f"spells the key {node.value!r}; {LAYOUT} does")


def job_files_are_opened_with_care(path: str, tree: ast.Module) -> Iterator[Finding]:
    """What a job may have put where a file is expected is opened by one module alone."""
    if not path.startswith(ON_MACHINES) or path in PLAIN_OPENERS:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            # The last name alone: `Path(a, b).open` has no dotted one.
            called = node.func.attr if isinstance(node.func, ast.Attribute) else _dotted(node.func)
            if called in OPENERS:
                what = f"opens by {called}(); {JOB_FILES} does so for what a job may have made"
                yield Finding(path, node.lineno, what)


RULES: tuple[Rule, ...] = (
    core_is_pure,
    no_clock_no_chance,
    names_say_what,
    fits_a_screen,
    stdout_is_data,
    keys_are_in_the_layout,
    job_files_are_opened_with_care,
)


def sources() -> list[Path]:
    """Every Python file of the four rooms."""
    return sorted(path for room in ROOMS for path in (HOUSE / room).rglob("*.py"))


@cache
def trees() -> tuple[tuple[str, ast.Module], ...]:
    """Path and tree of each of them: parsing takes longer than all rules together."""
    files = ((path.relative_to(HOUSE).as_posix(), path.read_text()) for path in sources())
    return tuple((name, ast.parse(text)) for name, text in files)


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every module and, of `from` imports, every name in it; also those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that the file itself chooses; arguments as `function.argument`."""
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
    """`LogHandler`, `log_handler` -> {log, handler}."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
