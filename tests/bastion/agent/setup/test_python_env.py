"""Python environments are built once, are complete or absent, and are kept while used."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from bastion.agent import main
from bastion.agent.begin.begin import NOTHING_BEGUN
from bastion.agent.home import FolderHome
from bastion.agent.keeper.socket import client
from bastion.agent.machine.machine_fault import is_machine_fault
from bastion.agent.settings import AgentSettings
from bastion.agent.setup.code_setup import SetUpError
from bastion.agent.setup.python_env import BuildError, build, recipe_of, take
from bastion.machine import Leave
from bastion.records.code.bundles import Bundles
from bastion.records.coding.codec import encode
from bastion.records.keys import layout
from bastion.records.reports.facts import HostFact
from bastion.records.requests.launch_request import SpecRecord
from bastion.spec import BundleRef, Job, Launch, Process, PythonEnv
from bundler.bundle.upload import bundle
from bundler.code import LocalDir
from tests.bastion.agent.real_machine import Machine, shell
from tests.rigs.agent import MACHINE, OF, start, stop
from tests.servers.wheels import make_wheel

UV = Path(sys.executable).with_name("uv")
QUICK = ["uv" if UV.exists() else "pip"]
"""Pip takes ten times as long."""
TOOLS = [*QUICK, pytest.param("pip", marks=pytest.mark.prove)] if UV.exists() else QUICK
MARK = "test:python"
BUILD_S = 120.0
"""The longest build of an environment with one package: seconds, on an idle machine."""


@pytest.fixture
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the tool in the PATH, without a cache or an index."""
    programs = tmp_path / "bin"
    programs.mkdir()
    if request.param == "uv":
        (programs / "uv").symlink_to(UV)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return str(request.param)


class Code:
    """A folder of code with a lock file, and the wheels in that file."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "code"
        self.root.mkdir()
        self.wheels = folder / "wheels"
        self.cache = folder / "cache"
        self.sha256 = make_wheel(self.wheels, "greet", "1.0")
        self.lock()

    def lock(self, *lines: str, name: str = "requirements.txt") -> None:
        """Write the lock file."""
        wanted = lines or (f"greet==1.0 --hash=sha256:{self.sha256}",)
        text = "\n".join(["--no-index", f"--find-links {self.wheels}", *wanted])
        (self.root / name).write_text(f"{text}\n")

    def digest(self, **env: str) -> str:
        """Return the digest of its environment."""
        return recipe_of(PythonEnv(**env), self.root, self.cache).digest


@pytest.fixture
def code(tmp_path: Path) -> Code:
    """Return code that needs one package."""
    return Code(tmp_path)


@pytest.mark.parametrize("tool", TOOLS, indirect=True)
def test_an_environment_is_whole_or_missing(code: Code, tool: str) -> None:
    """A killed builder's remains are deleted; a finished environment is reused and read-only."""
    recipe = recipe_of(PythonEnv(), code.root, code.cache)
    left = recipe.folder / "try-killed"
    (left / "bin").mkdir(parents=True)
    link = code.root / "python"
    assert take(recipe, link) == ""
    build(recipe, mark=MARK, environ=os.environ)
    place = Path(take(recipe, link))
    assert not left.exists()
    said = subprocess.run([place / "bin" / "greet"], capture_output=True, check=True)
    assert said.stdout == b"1.0\n"
    modes = [path.lstat() for path in place.rglob("*") if not path.is_symlink()]
    assert not any(each.st_mode & 0o222 for each in modes)
    assert any(stat.S_ISREG(each.st_mode) for each in modes)
    assert list(place.rglob("greet.*.pyc"))
    assert take(recipe, link) == str(place) == os.fspath(link.readlink())


@pytest.mark.parametrize("tool", QUICK, indirect=True)
def test_an_environment_is_open_to_the_user_of_jobs(code: Code, tool: str) -> None:
    """Jobs may run as another user than the agent, whose own files are closed to all others."""
    before = os.umask(0o077)
    try:
        recipe = recipe_of(PythonEnv(), code.root, code.cache)
        build(recipe, mark=MARK, environ=os.environ)
    finally:
        os.umask(before)
    place = Path(take(recipe, code.root / "python"))
    paths = [path for path in (place.parent, place, *place.rglob("*")) if not path.is_symlink()]
    closed = [path for path in paths if path.name != "whole" and not path.stat().st_mode & 0o004]
    assert closed == []
    assert all(path.stat().st_mode & 0o001 for path in paths if path.is_dir())


@pytest.mark.parametrize("tool", QUICK, indirect=True)
def test_a_failed_build_says_why(code: Code, tool: str) -> None:
    """A package with another hash is not installed; the output is shown, without passwords."""
    (code.root / "requirements.txt").write_text(
        f"--no-index\n--find-links {code.wheels}\ngreet==1.0 --hash=sha256:{'0' * 64}\n"
    )
    recipe = recipe_of(PythonEnv(), code.root, code.cache)
    with pytest.raises(BuildError) as caught:
        build(recipe, mark=MARK, environ=os.environ)
    assert "the Python environment of requirements.txt cannot be built, " in str(caught.value)
    assert b"hash" in caught.value.printed.lower()
    assert take(recipe, code.root / "python") == ""


@pytest.mark.parametrize("tool", QUICK, indirect=True)
def test_a_build_that_meets_a_full_disk_is_the_machines_fault(code: Code, tool: str) -> None:
    """A failure while the disk is full is not the job's."""
    (code.root / "requirements.txt").write_text("--no-index\nmissing==1.0\n")
    recipe = recipe_of(PythonEnv(), code.root, code.cache)
    with pytest.raises(SetUpError, match="No space left on device") as caught:
        build(recipe, mark=MARK, environ=os.environ, trouble=lambda _: "its disk is full")
    assert is_machine_fault(caught.value)
    assert not isinstance(caught.value, BuildError)


@pytest.mark.skipif(not UV.exists(), reason="no uv")
@pytest.mark.parametrize("tool", ["uv"], indirect=True)
def test_a_uv_lock_is_synced_as_it_stands(code: Code, tool: str) -> None:
    """`uv.lock` is installed without its project, and without resolving anything."""
    (code.root / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "0"\nrequires-python = ">=3.11"\n'
        f'dependencies = ["greet"]\n[tool.uv]\nno-index = true\nfind-links = ["{code.wheels}"]\n'
    )
    subprocess.run([UV, "lock", "-q"], cwd=code.root, check=True)
    recipe = recipe_of(PythonEnv(lock="uv.lock"), code.root, code.cache)
    make_wheel(code.wheels, "greet", "2.0")
    build(recipe, mark=MARK, environ=os.environ)
    place = take(recipe, code.root / "python")
    said = subprocess.run([f"{place}/bin/greet"], capture_output=True, check=True)
    assert said.stdout == b"1.0\n"
    before = recipe.digest
    (code.root / "pyproject.toml").write_text((code.root / "pyproject.toml").read_text() + "\n")
    assert code.digest(lock="uv.lock") != before


@pytest.mark.skipif(not UV.exists(), reason="no uv")
@pytest.mark.parametrize("tool", ["uv"], indirect=True)
def test_the_version_beside_a_uv_lock_counts_unless_one_is_named(code: Code, tool: str) -> None:
    """`.python-version` is uv's own: uv would rebuild the environment with that version."""
    here = ".".join(map(str, sys.version_info[:2]))
    (code.root / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "0"\nrequires-python = ">=3.11"\n'
    )
    subprocess.run([UV, "lock", "-q"], cwd=code.root, check=True)
    (code.root / ".python-version").write_text("3.99\n")
    assert recipe_of(PythonEnv("uv.lock"), code.root, code.cache).interpreter == "3.99"
    recipe = recipe_of(PythonEnv("uv.lock", python=here), code.root, code.cache)
    build(recipe, mark=MARK, environ=os.environ)
    python = f"{take(recipe, code.root / 'python')}/bin/python"
    said = subprocess.run([python, "--version"], capture_output=True, check=True, text=True)
    assert said.stdout.startswith(f"Python {here}.")
    for text in ("pypy@3.10\n", "", "\n"):
        (code.root / ".python-version").write_text(text)
        assert code.digest(lock="uv.lock") == recipe.digest


@pytest.mark.skipif(not UV.exists(), reason="no uv")
@pytest.mark.parametrize("tool", ["uv"], indirect=True)
def test_a_python_that_uv_cannot_fetch_is_named(code: Code, tool: str) -> None:
    """Its own error would only mention the network."""
    recipe = recipe_of(PythonEnv(python="3.99"), code.root, code.cache)
    with pytest.raises(BuildError, match=r"for this machine has no Python 3\.99, ended with"):
        build(recipe, mark=MARK, environ=os.environ)


@pytest.mark.skipif(not UV.exists(), reason="no uv")
@pytest.mark.parametrize("tool", ["uv"], indirect=True)
def test_a_failed_build_is_told_with_its_error_and_cause(code: Code, tool: str) -> None:
    """The causes below an error of uv's often only mention the network."""
    (code.root / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "0"\nrequires-python = ">=3.11"\n'
    )
    subprocess.run([UV, "lock", "-q"], cwd=code.root, check=True)
    for name in ("pyproject.toml", "uv.lock"):
        text = (code.root / name).read_text()
        (code.root / name).write_text(text.replace(">=3.11", ">=3.99"))
    recipe = recipe_of(PythonEnv("uv.lock"), code.root, code.cache)
    with pytest.raises(BuildError) as caught:
        build(recipe, mark=MARK, environ=os.environ)
    last = str(caught.value).splitlines()[-1]
    assert "uv.lock cannot be built, uv sync --frozen ended with 2: error: " in last
    assert ">=3.99" in last


@pytest.mark.skipif(not UV.exists(), reason="no uv")
@pytest.mark.parametrize("tool", ["uv"], indirect=True)
def test_a_job_imports_the_local_packages_of_its_own_code(code: Code, tool: str) -> None:
    """Jobs share an environment, which has what the members of a workspace need."""
    projects = {
        "app": ".",
        "member": "members/member",
        "editable": "libs/editable",
        "plain": "libs/plain",
    }
    settings = f'[tool.uv]\nno-index = true\nfind-links = ["{code.wheels}"]\npackage = true\n'
    for name, folder in projects.items():
        source = code.root / folder / ("" if name == "plain" else "src")
        (source / name).mkdir(parents=True)
        (source / name / "__init__.py").write_text("WHOSE = 'the first'\n")
        needs = {"app": '"editable", "plain"', "member": '"greet"'}.get(name, "")
        (code.root / folder / "pyproject.toml").write_text(
            f'[project]\nname = "{name}"\nversion = "0"\nrequires-python = ">=3.11"\n'
            f"dependencies = [{needs}]\n{settings}"
        )
    with (code.root / "pyproject.toml").open("a") as file:
        file.write(
            '[tool.uv.workspace]\nmembers = ["members/*"]\n[tool.uv.sources]\n'
            'editable = { path = "libs/editable", editable = true }\n'
            'plain = { path = "libs/plain" }\n'
        )
    subprocess.run([UV, "lock", "-q"], cwd=code.root, check=True)
    build(recipe_of(PythonEnv("uv.lock"), code.root, code.cache), mark=MARK, environ=os.environ)
    later = code.root.rename(code.root.with_name("later"))
    for module in later.rglob("__init__.py"):
        module.write_text("WHOSE = 'the later'\n")
    recipe = recipe_of(PythonEnv("uv.lock"), later, code.cache)
    place = take(recipe, later / "python")
    program = "import app, editable, greet, member, plain\n"
    program += "print({each.WHOSE for each in (app, editable, member, plain)})"
    said = subprocess.run(
        [f"{place}/bin/python", "-c", program],
        env={"PYTHONPATH": ":".join(recipe.python_path)},
        cwd=code.cache,
        capture_output=True,
        check=True,
        text=True,
    )
    assert said.stdout == "{'the later'}\n"


def test_a_digest_is_that_of_the_lock_and_the_interpreter(code: Code) -> None:
    """Another lock file is another environment; the same file under another name is not."""
    first = code.digest()
    shutil.copy(code.root / "requirements.txt", code.root / "other.txt")
    assert code.digest(lock="other.txt") == first
    code.lock("greet==1.0")
    assert code.digest() != first


@pytest.mark.parametrize(
    "line", ["-r base.txt", "-c limits.txt", "-e .", "./pkg", "/pkg", "mine @ file:///pkg"]
)
def test_a_lock_that_needs_other_files_is_refused(code: Code, line: str) -> None:
    """A line that the digest does not cover is an error that names the line."""
    code.lock(line)
    with pytest.raises(SetUpError, match=f"requirements.txt, line 3: '{line}' stands for files"):
        code.digest()


@pytest.mark.parametrize(
    ("name", "advice"), [("poetry.lock", "poetry export"), ("a/environment.yml", "need an image")]
)
def test_a_lock_of_another_tool_is_refused_with_what_to_do(name: str, advice: str) -> None:
    """Pip would treat its first line as the name of a package."""
    (problem,) = PythonEnv(name).problems_of(b"[[package]]")
    assert problem.startswith(f"python: {name} is neither a uv.lock nor a requirements file; ")
    assert advice in problem


def test_a_lock_that_is_missing_is_named(code: Code) -> None:
    """The error says that the lock file is not in the code."""
    with pytest.raises(
        SetUpError, match=r"locks/a\.txt cannot be read from the code: No such file"
    ):
        code.digest(lock="locks/a.txt")


@pytest.mark.parametrize("tool", ["pip"], indirect=True)
def test_what_a_machine_lacks_is_named(code: Code, tool: str) -> None:
    """The error names a version that cannot be installed, or a lock that only uv reads."""
    with pytest.raises(SetUpError, match=r"this machine has no Python 3\.99, its agent runs on 3"):
        code.digest(python="3.99")
    (code.root / "uv.lock").touch()
    with pytest.raises(SetUpError, match="this machine has no uv"):
        code.digest(lock="uv.lock")


def test_only_unused_environments_are_deleted(tmp_path: Path) -> None:
    """An environment is deleted if it was taken long ago and no living host links to it."""
    home = FolderHome(tmp_path)
    places = {}
    for name in ("used", "old", "new"):
        folder = home.cache / "python" / name
        (folder / "try-a" / "bin").mkdir(parents=True)
        (folder / "try-a" / "bin").chmod(0o500)
        (folder / "whole").write_text("try-a")
        places[name] = folder
    for name in ("used", "old"):
        os.utime(places[name] / "whole", (0, 0))
    Path(home.folders("a").python).symlink_to(places["used"] / "try-a")
    Path(home.folders("b").python).symlink_to(places["old"] / "try-a")
    home.clean(ended=0.0, needed=0.0, taken=1000.0, spared=frozenset({"a"}))
    assert sorted(each.name for each in (home.cache / "python").iterdir()) == ["new", "used"]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """Run a machine with an agent."""
    made = Machine(tmp_path)
    made.begin()
    try:
        yield made
    finally:
        made.close()


def submit(machine: Machine, code: Code, launch: str = "launch-abc") -> None:
    """Write the spec of a launch that runs `greet` in the environment of the code."""
    sent = bundle(LocalDir(str(code.root)), Bundles(machine.bucket.store), start=code.root)
    record = SpecRecord(
        id=launch,
        project="vision",
        user="ada",
        ulid="0" * 26,
        launch=Launch(
            name="launch",
            jobs=(Job(name="train", processes=(Process("greet; echo $VIRTUAL_ENV", shell=True),)),),
            project="vision",
            code=BundleRef(digest=sent.digest),
            python=PythonEnv(),
        ),
    )
    machine.bucket.store.create(layout.spec("vision", launch), encode(record))


def at(nonce: str, job: str = "train-abc") -> HostFact:
    """Return one of several hosts."""
    return HostFact(project="vision", job=job, attempt=1, nonce=nonce, replica=0, host=0)


@pytest.mark.parametrize("tool", QUICK, indirect=True)
def test_jobs_that_start_together_build_once(tool: str, machine: Machine, code: Code) -> None:
    """One host builds while others wait; later jobs and the next agent find it."""
    submit(machine, code)
    hosts = [at(f"n{n}") for n in range(5)]
    machine.bucket.instruct(*map(start, hosts))
    for of in hosts:
        machine.drained(of, patience_s=BUILD_S)
    machine.kill()
    machine.begin()
    last = at("n9")
    machine.bucket.instruct(start(last))
    machine.drained(last)
    (place,) = (machine.home / "cache" / "python").glob("*/try-*")
    for of in (*hosts, last):
        assert machine.bucket.log(of=of).decode() == f"1.0\n{place}\n"


@pytest.mark.parametrize("tool", QUICK, indirect=True)
def test_the_output_of_a_failed_build_is_kept(tool: str, machine: Machine, code: Code) -> None:
    """The outcome has the end of it, the log all of it; the next attempt retries."""
    code.lock("nothing-of-this-name==1.0")
    submit(machine, code)
    machine.bucket.instruct(start())
    machine.until(lambda: "drained" in machine.bucket.told(), patience_s=BUILD_S)
    end = machine.bucket.end()
    assert end is not None
    assert end.kind == "setup_failed"
    *output, told = end.detail.splitlines()
    assert re.match(
        "the Python environment of requirements.txt cannot be built, (python -m pip|uv pip install)"
        " ended with 1: .*nothing-of-this-name==1.0",
        told,
    )
    assert machine.bucket.log(of=OF).decode().strip().endswith("\n".join(output))
    assert end.sizes == (len(machine.bucket.log(of=OF)),)


def test_a_build_that_is_cancelled_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep one of few threads for an hour, and its network and processors."""
    programs = tmp_path / "bin"
    programs.mkdir()
    begun = tmp_path / "begun"
    (programs / "uv").write_text(
        f"#!/bin/sh\necho $$ >{begun}.new; mv {begun}.new {begun}\nexec sleep 1000\n"
    )
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    machine = Machine(tmp_path / "machine")
    try:
        machine.begin()
        submit(machine, Code(tmp_path))
        machine.bucket.instruct(start())
        machine.until(begun.exists)
        machine.bucket.instruct(stop())
        machine.drained()
        machine.until(lambda: not Path(f"/proc/{begun.read_text().strip()}").exists())
    finally:
        machine.close()


def test_an_agent_that_starts_over_ends_its_builds_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a keeper did not answer for a while, no two set-ups of one host run at a time."""
    programs, begun, both = tmp_path / "bin", tmp_path / "begun", tmp_path / "both"
    programs.mkdir()
    (programs / "uv").write_text(
        f"#!/bin/sh\nfor pid in $(cat {begun} 2>/dev/null); do kill -0 $pid && touch {both}; done\n"
        f"echo $$ >>{begun}\nexec sleep 1000\n"
    )
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(client, "ANSWER_S", 0.5)
    machine = Machine(tmp_path / "machine")
    machine.home.mkdir()
    settings = AgentSettings(
        machine=MACHINE, root_url=f"file://{machine.root}", home=str(machine.home)
    )
    serve = partial(main._serve, machine.bucket.store, settings, machine.home)
    home = FolderHome(machine.home)
    agent = Thread(target=serve, args=(home, None, NOTHING_BEGUN), daemon=True)
    agent.start()
    try:
        submit(machine, Code(tmp_path))
        machine.bucket.instruct(start())
        machine.until(lambda: begun.exists() and begun.read_text().endswith("\n"))
        first = begun.read_text().strip()
        os.kill(machine.keeper_pid(), signal.SIGSTOP)
        machine.bucket.spec(shell("true"), launch="launch-true")
        other = at("n2", "other-abc")
        machine.bucket.instruct(replace(start(other), launch="launch-true"))
        machine.until(lambda: not Path(f"/proc/{first}").exists())
        os.kill(machine.keeper_pid(), signal.SIGCONT)
        machine.until(lambda: len(begun.read_text().split()) > 1)
        assert not both.exists()
        machine.bucket.instruct(stop())
        machine.drained()
        machine.drained(other)
    finally:
        os.kill(machine.keeper_pid(), signal.SIGCONT)
        machine.bucket.instruct(Leave())
        agent.join(BUILD_S)
        machine.close()
    assert not agent.is_alive()
