"""
A launch as a TOML file, with the names of the Python values; errors list every problem's path.

    name = "experiment"
    [code]
    type = "local"
    [[jobs]]
    name = "trainer"
    replicas = 3
    [[jobs.processes]]
    command = ["python3", "train.py"]
    resources = { h100 = 2, memory = "64GiB" }
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

from pydantic import TypeAdapter, ValidationError

from bastion.client.submit.strict import misread
from bastion.errors import SpecError
from bastion.records.coding.codec import plain, problems
from bastion.spec import (
    After,
    BundleRef,
    Code,
    CodeRef,
    Job,
    Launch,
    Notify,
    Process,
    PythonEnv,
    Sample,
    Secret,
    Sweep,
    Where,
    check_name,
)
from bastion.spec.launch import DURATIONS
from bastion.spec.values.quantity import written_bytes, written_seconds
from bundler.code import DockerBuild, GitRepo, Image, LocalDir
from bundler.errors import InvalidCodeError
from quota.pattern import pattern

CODE_TYPES: Mapping[str, type[Any]] = {
    "local": LocalDir,
    "git": GitRepo,
    "image": Image,
    "docker": DockerBuild,
    "bundle": BundleRef,
}
"""The values of `[code] type = ...`, and the value that its other keys define."""
_C1 = pattern("[\x80-\x9f]")
_FROM_HERE = "a relative path begins in the current folder"


def launch_given(file: object) -> Launch:
    """
    Return the launch of the file whose path was given in place of a launch.

    Raises:
        SpecError: It is not a path; or as for `read_launch`.
    """
    if isinstance(file, str | Path):
        return read_launch(Path(file))
    kind = type(file).__name__
    shown = f"a {kind}" if kind in ("Job", "Process") else repr(file)[:80]
    raise SpecError(
        f"launch: {shown} is not a launch, nor the path of its file",
        hint="Launch(name='train', jobs=[Job(processes=[Process(['python3', 'a.py'])])])",
    )


def read_launch(path: Path) -> Launch:
    """
    Return the launch that the file at `path` describes.

    Raises:
        SpecError: It cannot be read, is not TOML, or is invalid; the error lists every problem.
    """
    text = text_in(path)
    if path.suffix == ".py":
        raise SpecError(
            f"{path}: is a program, and a launch is read from a .toml file",
            hint=f"Launch(name={path.stem!r}, code=LocalDir(),"
            f" jobs=[Job(processes=[Process(['python3', {path.name!r}])])])",
        )
    return parse_launch(text, source=str(path))


def text_in(path: Path) -> str:
    """
    Return the text of the file at `path`.

    Raises:
        SpecError: There is no such file, it cannot be read, or it is not text.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SpecError(f"no file {str(path)!r}", hint=beside(path) or _FROM_HERE) from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: cannot be read as text: {error}") from None


def beside(path: Path) -> str:
    """Return a hint about an existing file with a similar name; empty for none."""
    import difflib

    stems = {each.stem for each in path.parent.glob(f"*{path.suffix}")}
    near = difflib.get_close_matches(path.stem, stems, n=1)
    return f"did you mean {path.with_name(near[0] + path.suffix)}?" if near else ""


def parse_launch(text: str, *, source: str) -> Launch:
    """
    Return the launch that `text` describes; errors call it `source`.

    Raises:
        SpecError: It is not TOML or is invalid; the error lists every problem.
    """
    try:
        table = tomllib.loads(text)
        repr(table)  # a hexadecimal number may have more digits than Python writes
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        raise SpecError(f"{source}: not TOML, {error}") from None
    found: list[str] = []
    code: Code | CodeRef | None = None
    try:
        code = _code(table.pop("code", None))
    except SpecError as error:
        found.extend(error.problems)
    found.extend(_listed(table))
    wrong = tuple(misread(Launch, table))
    found.extend(wrong)
    try:
        launch: Launch = _adapter(Launch).validate_python(table)
    except ValidationError:
        told = tuple(problem.partition(": ")[0] for problem in wrong)
        others = (each for each in _problems(table) if not each.startswith(told))
        found.extend(map(_with_nearest, others))
    if found:
        from quota.lines import placed

        raise SpecError(*placed(source, text, found))
    return dataclasses.replace(launch, code=code)


def launch_text(launch: Launch) -> str:
    """Return `launch` as the TOML file that `parse_launch` reads, with units for people."""
    import tomlkit

    table = plain(dataclasses.replace(launch, code=None))
    table["jobs"] = list(map(_with_units, table["jobs"]))
    if launch.code is not None:
        kinds = {kind: name for name, kind in CODE_TYPES.items()}
        code = {key: text for key, text in plain(launch.code).items() if key != "kind"}
        table["code"] = {"type": kinds[type(launch.code)], **code}
    # In TOML, tables come last.
    order = sorted(table.items(), key=lambda item: isinstance(item[1], (dict, list)))
    # A terminal shows these as \x85, which TOML does not have.
    return _C1.sub(lambda found: f"\\u{ord(found[0]):04x}", tomlkit.dumps(_on_lines(dict(order))))


def _with_units(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return `job` with its durations and sizes as people write them."""
    written = {key: written_seconds(job[key]) for key in DURATIONS if key in job}
    processes = [_with_size(each) for each in job["processes"]]
    return {key: written.get(key, each) for key, each in job.items()} | {"processes": processes}


def _with_size(process: Mapping[str, Any]) -> Mapping[str, Any]:
    units = process.get("resources") or {}
    if "memory" not in units:
        return process
    return {**process, "resources": {**units, "memory": written_bytes(units["memory"])}}


def _on_lines(part: Any) -> Any:
    """Return `part` with each multi-line text as multi-line TOML, so that it is readable."""
    import tomlkit

    if isinstance(part, Mapping):
        return {key: _on_lines(each) for key, each in part.items()}
    if isinstance(part, (list, tuple)):
        return [_on_lines(each) for each in part]
    if not isinstance(part, str) or "\n" not in part or "'''" in part or part.endswith("'"):
        return part
    is_plain = all(line.isprintable() for line in part.replace("\t", "").split("\n"))
    return tomlkit.value(f"'''\n{part}'''") if is_plain else part


def _listed(table: dict[str, Any]) -> Iterator[str]:
    """Yield a problem if `jobs` or `processes` is a single table, and wrap it in a list."""
    if isinstance(table.get("jobs"), dict):
        yield "jobs: is a single table, must be a list of tables; write [[jobs]]"
        table["jobs"] = [table["jobs"]]
    jobs = table.get("jobs")
    for at, job in enumerate(jobs if isinstance(jobs, list) else ()):
        if isinstance(job, dict) and isinstance(job.get("processes"), dict):
            yield (
                f"jobs.{at}.processes: is a single table, must be a list of tables; write"
                " [[jobs.processes]]"
            )
            job["processes"] = [job["processes"]]


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _problems(table: Mapping[str, Any]) -> list[str]:
    """
    Return every problem, outer and inner.

    A value is validated as a whole only if its parts are valid. So each value is checked with valid
    stand-ins for its parts, and the parts are checked separately.
    """
    jobs = table.get("jobs")
    if not _are_tables(jobs):
        return _problems_of(Launch, table, "")
    stand_ins = [_stand_in(at, job) for at, job in enumerate(jobs)]
    found = _problems_of(Launch, {**table, "jobs": stand_ins}, "")
    for at, job in enumerate(jobs):
        processes = job.get("processes")
        if _are_tables(processes):
            found += _problems_of(Job, {**job, "processes": [_PROCESS]}, f"jobs.{at}.")
            for process_at, process in enumerate(processes):
                found += _problems_of(Process, process, f"jobs.{at}.processes.{process_at}.")
        else:
            found += _problems_of(Job, job, f"jobs.{at}.")
    return found or _problems_of(Launch, table, "")


_PROCESS = {"command": ["true"]}


def _are_tables(part: object) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(part, list) and bool(part) and all(isinstance(one, dict) for one in part)


def _stand_in(at: int, job: Mapping[str, Any]) -> dict[str, Any]:
    name = job.get("name", "main")
    is_good = isinstance(name, str) and not check_name("name", name)
    return {"name": name if is_good else f"job{at}", "processes": [_PROCESS]}


def _problems_of(kind: Any, table: Mapping[str, Any], path: str) -> list[str]:
    try:
        _adapter(kind).validate_python(table)
    except ValidationError as error:
        return [f"{path}{problem}" for problem in problems(error)]
    return []


def _code(table: object) -> Code | CodeRef | None:
    if table is None:
        return None
    if not isinstance(table, dict):
        raise SpecError(f"code: {table!r} is not a table; allowed: [code] with a type")
    options = dict(table)
    kind = options.pop("type", "local")
    made = CODE_TYPES.get(str(kind))
    if made is None:
        raise SpecError(f"code.type: {kind!r} is not known; allowed: {', '.join(CODE_TYPES)}")
    names = {field.name for field in dataclasses.fields(made)}
    wrong = [
        f"code.{name}: unknown field{_nearest(name, names)}" for name in options.keys() - names
    ]
    wrong += misread(made, options, "code.")
    wrong += [f"code.{name}: missing" for name in sorted(_required(made) - options.keys())]
    if wrong:
        raise SpecError(*wrong)
    try:
        code: Code | CodeRef = made(**options)
        return code
    except InvalidCodeError as error:
        raise SpecError(*(f"code.{problem}" for problem in error.problems)) from None


def _required(kind: type[Any]) -> set[str]:
    return {
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }


_LEVELS = {
    Launch: "the launch, above the first [[jobs]]",
    Job: "a job, under [[jobs]]",
    Process: "a process, under [[jobs.processes]]",
}


def _with_nearest(problem: str) -> str:
    """Return `problem`; for an unknown field, with where it belongs, or the nearest name."""
    path, colon, text = problem.partition(": ")
    if text != "unknown field":
        return problem
    above, _, name = path.rpartition(".")
    if any(name in _fields(kind) for kind in _LEVELS):
        return f"{path}{colon}unknown here; {_home(name)}"
    levels = (*_LEVELS, Where, After, Notify, Secret, PythonEnv, Sweep, Sample)
    near = difflib.get_close_matches(name, sorted(set().union(*map(_fields, levels))), n=1)
    if not near:
        return problem
    is_far = any(near[0] in _fields(kind) for kind in _LEVELS) and near[0] not in _fields(
        _kind_at(above)
    )
    return f"{problem}, nearest is {near[0]}" + (f"; {_home(near[0])}" if is_far else "")


def _kind_at(path: str) -> Any:
    """Return the kind at `path` of a launch file, if it is one of the three levels."""
    if re.fullmatch(r"jobs\.\d+", path):
        return Job
    return Process if re.fullmatch(r"jobs\.\d+\.processes\.\d+", path) else Launch


def _home(name: str) -> str:
    places = [where for kind, where in _LEVELS.items() if name in _fields(kind)]
    return f"{name} is a field of {' or '.join(places)}"


def _fields(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def _nearest(name: str, names: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), n=1)
    return f", nearest is {near[0]}" if near else ""
