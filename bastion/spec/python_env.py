"""The Python environment that a launch's processes run in, named by a lock file in its code."""

from __future__ import annotations

from bastion.errors import SpecError
from bastion.spec.code import BundleRef, Code, CodeRef, GitRef, GitRepo, LocalDir
from bastion.spec.values.spec_value import value
from bastion.spec.values.typed import check_types
from bastion.value import field
from quota.pattern import pattern

MAX_PATH_CHARACTERS = 1024
"""For the path of a lock file in the code."""
_VERSION = pattern(r"3\.[0-9]{1,2}(?:\.[0-9]{1,3})?")
_OUTSIDE = pattern(r"/|.*(?:^|/)\.{0,2}(?:/|$)")
_ELSEWHERE = pattern(
    r"(?:-r|-c|-e|--requirement|--constraint|--editable)\b|\.{0,2}/|file:|[\w.\[\], -]+@\s*file:"
)
"""Lines of a requirements file that refer to content outside its digest."""
_OTHERS = {
    "poetry.lock": "poetry export -o requirements.txt",
    "pdm.lock": "pdm export -o requirements.txt",
    "Pipfile.lock": "pipenv requirements --hash > requirements.txt",
    "pixi.lock": "its conda packages need an image",
    "conda-lock.yml": "its conda packages need an image",
    "environment.yml": "its conda packages need an image",
    "environment.yaml": "its conda packages need an image",
}
"""Files of other tools, and what to do with each."""


@value
class PythonEnv:
    """
    The packages in `lock`, installed once on each machine and shared by jobs with the same lock
    file.

    `lock` is a path in the code: a `uv.lock` beside its `pyproject.toml`, or a requirements file,
    whose hashes are checked if it has any. `python` is a version such as `3.11`; empty: the version
    in the `.python-version` beside a `uv.lock`, else that of the machine's agent. The environment
    is first in the `PATH` of processes.
    """

    lock: str = field(default="requirements.txt", kw_only=False)
    python: str = ""

    def __post_init__(self) -> None:
        check_types(self)
        problems = []
        if len(self.lock) > MAX_PATH_CHARACTERS:
            problems.append(f"lock: {len(self.lock)} characters; at most {MAX_PATH_CHARACTERS}")
        elif _OUTSIDE.match(self.lock) or "\0" in self.lock:
            problems.append(f"lock: {self.lock!r} is not a path in the code, as requirements.txt")
        if self.python and not _VERSION.fullmatch(self.python):
            problems.append(f"python: {self.python!r} is not a version of Python, as 3.11")
        if problems:
            raise SpecError(*problems)

    @property
    def is_uv(self) -> bool:
        """Whether its lock file is uv's own."""
        return self.lock.rpartition("/")[2] == "uv.lock"

    @property
    def project(self) -> str:
        """The `pyproject.toml` beside uv's lock file; empty for a requirements file."""
        return f"{self.lock.removesuffix('uv.lock')}pyproject.toml" if self.is_uv else ""

    def problems_of(self, locked: bytes) -> list[str]:
        """Return why no environment can be built from a lock file with these bytes."""
        if self.is_uv:
            return []
        if advice := _OTHERS.get(self.lock.rpartition("/")[2]):
            return [f"python: {self.lock} is neither a uv.lock nor a requirements file; {advice}"]
        lines = enumerate(locked.decode("utf-8", "replace").splitlines(), start=1)
        return [
            f"python: {self.lock}, line {number}: {line.strip()!r} stands for files that the"
            " environment's digest does not know; lock all but your own code into one file:"
            " uv export --no-emit-local, uv pip compile, or pip-compile"
            for number, line in lines
            if _ELSEWHERE.match(line.strip())
        ]


def python_problems(env: PythonEnv | None, code: CodeRef | Code | None) -> list[str]:
    """Return the problems of `env` with this code; none if there are none."""
    if env is None or isinstance(code, BundleRef | GitRef | LocalDir | GitRepo):
        return []
    if code is None:
        return [
            f"python: {env.lock} is read from the code, and no code is sent; send it with --code=."
        ]
    return ["python: an image brings its own environment; leave one of the two out"]
