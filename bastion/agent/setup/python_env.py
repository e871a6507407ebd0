"""
A cache of Python environments by the digest of their inputs: a warm machine installs nothing.

    <cache>/python/<digest>/<try>/    a virtual environment, whole or not
    <cache>/python/<digest>/whole     the name of the whole one; touched when it is used

An environment is built in its final place, since it contains its own path. It becomes whole with
the one rename of `whole`, after everything was synced. A killed builder leaves a folder that is
never used, even while its child processes still write there. A whole environment is read-only.
A host that uses one has a link `python` in its work folder: while the link exists, the environment
is not deleted.

The digest covers the lock file, `pyproject.toml` if uv reads it, and the interpreter.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from bastion.agent.machine.environment_cache import LOCK, delete
from bastion.agent.machine.health import disk_trouble
from bastion.agent.machine.stray_processes import MARK
from bastion.agent.setup.code_setup import SetUpError
from bastion.agent.setup.uv_lock import LocalPackages, local_packages, pinned_python
from bastion.logs.segments import SEGMENT_BYTES
from bastion.spec.python_env import PythonEnv
from bastion.value import value

BUILD_S = 3600.0
"""Longest build: CUDA wheels of some gigabytes over a slow line, with a margin."""

_CHECK_S = 1.0
"""Between two checks of the disk while a build runs."""

_FORMAT = 2
"""Format of the environments; a change rebuilds all of them."""

_OPEN = 0o755
"""Mode of the folders of an environment: jobs may run as a user other than the agent's."""

_SHOWN_BYTES = 3000
"""Share of a failed build's output in the outcome, which has at most 4096 characters."""

_PASSED = re.compile(
    r"(?:PIP|UV)_\w+|(?:HTTPS?|ALL|NO)_PROXY|SSL_CERT_(?:FILE|DIR)|REQUESTS_CA_BUNDLE|NETRC|"
    r"PATH|HOME|LANG|TMPDIR",
    re.IGNORECASE,
)
"""Variables of the agent that a build gets: its indexes, and how to reach them."""

_PASSWORD = re.compile(rb"(?<=://)[^/@\s]+(?=@)")


class BuildError(SetUpError):
    """An environment cannot be built; `printed` is the last mebibyte of the build's output."""

    def __init__(self, message: str, *, printed: bytes) -> None:
        super().__init__(message)
        self.printed = printed


@value
class Recipe:
    """One environment, and how it is built."""

    digest: str
    folder: Path
    """Folder of its tries."""
    lock: Path
    is_uv: bool
    has_hashes: bool
    interpreter: str
    """A program, or a version for uv to find."""
    local: LocalPackages = LocalPackages()
    """Packages of the lock file that are in the code, and not in the environment."""

    @property
    def python_path(self) -> tuple[str, ...]:
        """Where Python finds the packages that are in the code."""
        return self.local.python_path(self.lock.parent)


def recipe_of(env: PythonEnv, code: Path, cache: Path) -> Recipe:
    """
    Return how `env` is built for the code in the folder `code`.

    Raises:
        SetUpError: Its lock file is missing or cannot be cached by its digest, or this machine has
            no such Python.
    """
    lock = code / env.lock
    data = _read(lock, env.lock)
    uv = shutil.which("uv")
    if env.is_uv and uv is None:
        raise SetUpError(
            f"{env.lock} is uv's, and this machine has no uv",
            hint="install uv on the machine, or lock with:"
            " uv export --no-emit-local -o requirements.txt",
        )
    if wrong := env.problems_of(data):
        raise SetUpError(wrong[0])
    project = _read(code / env.project, env.project) if env.is_uv else b""
    version = env.python or (pinned_python(lock.parent) if env.is_uv else "")
    interpreter = _interpreter(version, has_uv=uv is not None)
    parts = (_identity(interpreter), data.decode("latin-1"), project.decode("latin-1"))
    digest = hashlib.sha256(json.dumps((_FORMAT, env.is_uv, *parts)).encode()).hexdigest()
    return Recipe(
        digest=digest,
        folder=cache / "python" / digest,
        lock=lock,
        is_uv=env.is_uv,
        has_hashes=b"--hash=" in data,
        interpreter=interpreter,
        local=local_packages(data) if env.is_uv else LocalPackages(),
    )


def take(recipe: Recipe, link: Path) -> str:
    """Return the path of the environment, empty if there is none; `link` keeps it in use."""
    with LOCK:
        whole = recipe.folder / "whole"
        try:
            os.utime(whole)
            place = recipe.folder / whole.read_text()
        except FileNotFoundError:
            return ""
        link.unlink(missing_ok=True)
        link.symlink_to(place)
        return str(place)


def build(
    recipe: Recipe,
    *,
    mark: str,
    environ: Mapping[str, str],
    trouble: Callable[[str], str] = disk_trouble,
    is_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """
    Build the environment and make it the whole one; one builder of a digest at a time.

    Args:
        recipe: The recipe of the environment.
        mark: The mark of every process of the build, so that none outlives the machine.
        environ: The agent's variables; the build gets those that configure its tools.
        trouble: Returns why the disk of a folder has no room. It is called while the build runs,
            because a build that fails for want of room often frees some before it ends.
        is_wanted: Tells whether anything still waits for it, which is asked while the build runs.

    Raises:
        BuildError: It cannot be built.
        SetUpError: It cannot be written to the disk, or is not wanted any more.
    """
    try:
        recipe.folder.mkdir(parents=True, exist_ok=True)
        _clear(recipe.folder)
        place = Path(tempfile.mkdtemp(prefix="try-", dir=recipe.folder))
        for folder in (recipe.folder, place):
            folder.chmod(_OPEN)
        env = _environment(place, mark, environ)
        for command in _commands(recipe, place):
            _run(command, recipe, place, env, trouble, is_wanted)
        place.with_suffix(".log").unlink(missing_ok=True)
        _protect(place)
        # After a power failure the machine must not have half of it.
        os.sync()
        new = recipe.folder / "whole.new"
        new.write_text(place.name)
        new.replace(recipe.folder / "whole")
    except OSError as error:
        raise SetUpError(f"its Python environment cannot be written: {error}") from error


def _read(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SetUpError(
            f"python: {name} cannot be read from the code: {error.strerror}",
            hint="is it committed, and not ignored?",
        ) from None


def _interpreter(version: str, *, has_uv: bool) -> str:
    """
    Return the Python of that version on this machine.

    Raises:
        SetUpError: There is none.
    """
    own = str(getattr(sys, "_base_executable", "") or sys.executable)
    parts = version.split(".")
    if not version or parts == platform.python_version().split(".")[: len(parts)]:
        return own
    found = shutil.which(f"python{'.'.join(parts[:2])}")
    if found and (len(parts) < 3 or _identity(found).startswith(f"{version} ")):
        return found
    if has_uv:
        return version
    raise SetUpError(
        f"python: this machine has no Python {version}, its agent runs on"
        f" {platform.python_version()}",
        hint="install it, or uv, which fetches it",
    )


def _identity(interpreter: str) -> str:
    """Return what a virtual environment of the interpreter depends on, as an identity."""
    if not interpreter.startswith("/"):
        return f"{interpreter} of uv {platform.machine()}"
    return _queried_identity(interpreter, Path(interpreter).stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _queried_identity(interpreter: str, _mtime_ns: int) -> str:
    query = "import platform as p; print(p.python_version(), p.machine(), *p.libc_ver())"
    done = subprocess.run([interpreter, "-I", "-c", query], capture_output=True, check=True)
    return f"{done.stdout.decode().strip()} {interpreter}"


def _commands(recipe: Recipe, place: Path) -> tuple[Sequence[str], ...]:
    """Return the commands that make the environment at `place`, in order."""
    python, uv = f"{place}/bin/python", shutil.which("uv")
    hashes = ["--require-hashes"] if recipe.has_hashes else []
    if uv is None:
        pip = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
        return (
            [recipe.interpreter, "-m", "venv", str(place)],
            [*pip, *hashes, "-r", str(recipe.lock)],
        )
    venv = [uv, "venv", "--allow-existing", "--python", recipe.interpreter, str(place)]
    if recipe.is_uv:
        sync = [uv, "sync", "--frozen", "--no-install-project", "--no-install-workspace"]
        sync += [f"--no-install-package={name}" for name in recipe.local.folders]
        sync += ["--all-packages"] if recipe.local.is_workspace else []
        # Named, or uv would rebuild the environment with the interpreter that the project names.
        sync += ["--python", python]
        return venv, [*sync, "--compile-bytecode", "--project", str(recipe.lock.parent)]
    install = [uv, "pip", "install", "--python", python, "--compile-bytecode", *hashes]
    return venv, [*install, "-r", str(recipe.lock)]


def _run(
    command: Sequence[str],
    recipe: Recipe,
    place: Path,
    env: Mapping[str, str],
    trouble: Callable[[str], str],
    is_wanted: Callable[[], bool],
) -> None:
    log = place.with_suffix(".log")
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=recipe.lock.parent,
            env=env,
            start_new_session=True,
            umask=0o777 & ~_OPEN,
        )
        code, is_full = _outcome(process, place, trouble, is_wanted)
        if code is None:
            output.write(f"[bastion: stopped after {BUILD_S:g} s]\n".encode())
            code = -signal.SIGKILL
    if code == 0:
        return
    if is_full:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    printed = _PASSWORD.sub(b"****", log.read_bytes())[-SEGMENT_BYTES:] or b"(no output)\n"
    what = " ".join(Path(word).name if word.startswith("/") else word for word in command[:3])
    if "venv" in command and not recipe.interpreter.startswith("/"):
        what += f", for this machine has no Python {recipe.interpreter},"
    last = printed[-_SHOWN_BYTES:].decode("utf-8", "replace").strip()
    # The last line is the summary of an outcome.
    raise BuildError(
        f"{last}\nthe Python environment of {recipe.lock.name} cannot be built, {what} ended with"
        f" {code}: {_gist(last)}",
        printed=printed,
    )


def _gist(output: str) -> str:
    """Return the last error in `output` with its last cause, in a line."""
    lines = [line.strip() for line in output.splitlines()]
    errors = [line for line in lines if line.lower().startswith("error:")]
    return " ... ".join(dict.fromkeys((*errors[-1:], lines[-1])))


def _outcome(
    process: subprocess.Popen[bytes],
    place: Path,
    trouble: Callable[[str], str],
    is_wanted: Callable[[], bool],
) -> tuple[int | None, bool]:
    """
    Wait for a build.

    Returns:
        Its exit code, None if it was killed for its timeout; and whether its disk was full.
    """
    is_full = False
    for _ in range(int(BUILD_S / _CHECK_S)):
        try:
            code = process.wait(_CHECK_S)
        except subprocess.TimeoutExpired:
            is_full = is_full or bool(trouble(str(place)))
        else:
            return code, is_full or bool(trouble(str(place)))
        if not is_wanted():
            _kill(process)
            raise SetUpError("its Python environment is not needed any more")
    _kill(process)
    return None, is_full


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment(place: Path, mark: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    passed = {name: text for name, text in environ.items() if _PASSED.fullmatch(name)}
    ours = {"UV_PROJECT_ENVIRONMENT": str(place), "PYTHONNOUSERSITE": "1", "UV_NO_PROGRESS": "1"}
    return {**passed, **ours, MARK: mark}


def _protect(place: Path) -> None:
    """Remove the write permission, files first; root can still write."""
    for folder, _, names in os.walk(place, topdown=False):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~0o222)


def _clear(folder: Path) -> None:
    """Delete the tries of builders that were killed or failed; a whole one is never rebuilt."""
    for left in folder.iterdir():
        delete(left)
    for left in folder.parent.glob(".gone-*"):
        delete(left)
