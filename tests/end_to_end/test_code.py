"""The code of a job, given by the command and by the Python API, on real machines."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bastion import (
    DockerBuild,
    GitRepo,
    Job,
    Launch,
    LocalDir,
    Process,
    PythonEnv,
    Secret,
    Where,
)
from bastion.errors import BastionError, RefusedError
from tests.end_to_end.admin_files import IN_CLOUD, IN_ENVIRONMENT, IN_FILE
from tests.end_to_end.programs import BOUND, Programs, until
from tests.rigs import trees
from tests.rigs.git_repositories import commit, git, served_by_http
from tests.servers.sshd import Sshd, needs_sshd, sshd
from tests.servers.wheels import make_wheel

pytestmark = pytest.mark.end_to_end

UV = Path(sys.executable).with_name("uv")


def stars(value: str) -> str:
    """Return what a log shows in place of `value`."""
    return "*" * len(value)


def holding(value: str, top: Path) -> list[str]:
    """Return the files below `top` that hold `value`, but not those that vanish meanwhile."""
    found = []
    for folder, _, names in os.walk(top):
        for path in (Path(folder, name) for name in names):
            with suppress(OSError):
                found += [str(path)] if value.encode() in path.read_bytes() else []
    return found


def test_a_secret_reaches_its_process_and_nothing_else(programs: Programs) -> None:
    """Secrets from the environment, a file, a cloud: masked in the log, in no stored file."""
    gate = programs.folder / "gate"
    hashed = 'printf %s "$HF_TOKEN" | sha256sum'
    line = f'echo "$OF_GOOGLE $HF_TOKEN"; {hashed}; until [ -e {gate} ]; do sleep 0.05; done'
    words = ("--secret=HF_TOKEN", "--secret=OF_GOOGLE", "--shell", "--", line)
    shown = programs.run("launch", "--dry_run", *words)
    job = programs.run("launch", "-q", *words).stdout.strip()
    digest = hashlib.sha256(IN_ENVIRONMENT.encode()).hexdigest()
    text = f"{stars(IN_CLOUD)} {stars(IN_ENVIRONMENT)}\n{digest}  -\n"
    until(lambda: programs.printed(job) == text, "it has printed")
    assert not [line for line in command_lines() if IN_ENVIRONMENT.encode() in line]
    gate.touch()

    secrets = [Secret("WANDB_KEY", file=True), Secret("OF_GOOGLE")]
    line = 'echo "key $WANDB_KEY $OF_GOOGLE"; cat $WANDB_KEY_FILE; echo; exit 3'
    keyed = programs.launch(line, secrets=secrets)
    key = stars(IN_FILE)
    assert programs.printed(keyed.id) == f"key {key} {stars(IN_CLOUD)}\n{key}\n"
    assert (keyed.state, keyed.code) == ("failed", 3)
    assert programs.wait(job).state == "succeeded"
    said = shown.stdout + shown.stderr + programs.run("show", job, "--json").stdout
    for value in (IN_ENVIRONMENT, IN_FILE, IN_CLOUD):
        assert value not in said + programs.served
        assert not holding(value, programs.folder / "root")
        kept = holding(value, programs.machines)
        assert all("/spool/" in path for path in kept), "but raw output, until it was sent"


def command_lines() -> Iterator[bytes]:
    """Yield the command lines of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


def test_a_secret_that_cannot_be_read_is_named(programs: Programs) -> None:
    """An undeclared secret is refused, also by a dry run; a missing value fails the set-up."""
    refused = "secrets: HF_TOKN is not declared; did you mean HF_TOKEN?"
    ran = programs.run("launch", "--secret=HF_TOKN", "--", "true", check=False)
    told = "note: secret HF_TOKN is read on the machine; the job fails if it is not there"
    assert (ran.returncode, ran.stderr) == (104, f"{told}\nerror: {refused}\n")
    ran = programs.run("launch", "--dry_run", "--secret=HF_TOKN", "--", "true", check=False)
    assert (ran.returncode, ran.stderr) == (104, f"{told}\nit would be refused: {refused}\n")
    with pytest.raises(RefusedError, match="HF_TOKN is not declared"):
        programs.launch("true", secrets=[Secret("HF_TOKN")])
    ran = programs.run("run", "--secret=GONE", "--", "true", check=False)
    assert ran.returncode == 100
    assert "could not be set up" in ran.stderr
    assert "secret GONE: file:red/GONE: no such file" in ran.stderr
    ended = programs.launch("true", secrets=[Secret("GONE")])
    assert ended.state == "setup_failed"
    assert "secret GONE" in ended.text


@pytest.mark.skipif(not UV.exists(), reason="no uv")
def test_a_python_environment_is_installed_once(programs: Programs, tmp_path: Path) -> None:
    """The second start with the same lock file installs nothing: the packages' source is gone."""
    wheels = tmp_path / "wheels"
    sha256 = make_wheel(wheels, "greet", "1.0")
    code, show = tmp_path / "code", "greet && echo $VIRTUAL_ENV"
    lock = f"--no-index\n--find-links {wheels}\ngreet==1.0 --hash=sha256:{sha256}\n"
    project = (
        '[project]\nname = "mine"\nversion = "0"\nrequires-python = ">=3.11"\n'
        f'dependencies = ["greet"]\n[tool.uv]\nno-index = true\nfind-links = ["{wheels}"]\n'
    )
    trees.write(code, {"requirements.txt": lock, "pyproject.toml": project})
    subprocess.run([UV, "lock", "-q"], cwd=code, check=True)
    host = programs.client.pool().machines[0].name
    where = [f"--hostname={host}", f"--code={code}", "--shell"]
    for locked in ("requirements.txt", "uv.lock"):
        _, printed = programs.follow(*where, f"--python_env={locked}", "--", show)
        version, place = printed.split()
        assert version == "1.0"
        wheels.rename(tmp_path / "gone")
        again = programs.launch(
            show,
            code=LocalDir(str(code)),
            python=PythonEnv(locked),
            where=Where(hostnames=[host]),
        )
        assert programs.printed(again.id).split() == ["1.0", place]
        (tmp_path / "gone").rename(wheels)


def test_a_working_tree_arrives_as_it_is(programs: Programs, tmp_path: Path) -> None:
    """Modes, links and empty folders arrive, ignored files do not; it is fetched once."""
    files = {
        ".gitignore": "*.log\n", ".bastionignore": "data/\n", "run.sh": "#!/bin/sh\necho ran\n",
        "empty/": "", "x.log": "", "data/big": "", "notes.md": "",
    }  # fmt: skip
    code = trees.write(tmp_path / "code", files)
    (code / "run.sh").chmod(0o755)
    (code / "link").symlink_to("run.sh")
    line = "./link; find . -mindepth 1 | sort | tr '\\n' ' '"
    host = programs.client.pool().machines[0].name
    spec = ["--bundler_type=local", f"--bundler_spec=root={code} exclude=*.md"]
    _, printed = programs.follow(*spec, f"--hostname={host}", "--shell", "--", line)
    assert printed == "ran\n./.bastionignore ./.gitignore ./empty ./link ./run.sh "
    for key in programs.place.keys("bundles/packs/"):
        programs.place.store.delete(key)
    there = LocalDir(str(code), exclude=["*.md"])
    ended = programs.launch(line, code=there, where=Where(hostnames=[host]))
    assert programs.printed(ended.id) == printed


def test_only_what_changed_is_sent(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed line in a few megabytes costs a kilobyte; a possible secret causes a warning."""
    monkeypatch.setenv("HOME", programs.env["HOME"])  # the cache of what was sent before
    megabytes = {f"data/{n}": os.urandom(100_000) for n in range(30)}
    code = trees.write(
        tmp_path / "code", {"a.py": "", ".env": "", ".bastionignore": "b\n", **megabytes}
    )
    host = Where(hostnames=[programs.client.pool().machines[0].name])

    def sent(line: str) -> int:
        """Return by how much the bucket grows when `line` is added and the tree is launched."""
        before = set(programs.place.keys("bundles/"))
        with (code / "a.py").open("a") as file:
            file.write(f"print({line!r})\n")
        if line == "api":
            handle = programs.client.launch(
                Launch(
                    name="api",
                    code=LocalDir(str(code)),
                    jobs=[Job(processes=[Process(["python3", "a.py"])])],
                    where=host,
                )
            )
            handle.wait()
            told, printed = "\n".join(handle.warnings), handle.logs("main")
        else:
            ran = programs.run("run", f"--code={code}", "--", "python3", "a.py")
            told, printed = ran.stderr, ran.stdout
        assert printed.endswith(f"{line}\n")
        assert told.count("may hold secrets, and will be readable by all who can read the") == 1
        made = set(programs.place.keys("bundles/")) - before
        return sum(len(programs.place.read(key) or b"") for key in made)

    assert sent("first") > 3_000_000
    assert sent("second") < 2000
    assert sent("api") < 2000
    (code / "b").write_bytes(bytes(100_000))
    (code / "a.py").write_text("")
    ran = programs.run("bundle", str(code))
    assert re.search(r"^2\.9 MiB of code, \d+ B sent$", ran.stderr, re.MULTILINE)


def test_an_unreadable_file_is_named(programs: Programs, tmp_path: Path) -> None:
    """Every file and folder of the code, however it is sent; and a file that holds a launch."""
    code = trees.write(tmp_path / "code", {"a.py": "", "k.pem": "", "data/d": "", "run.toml": ""})
    for name in ("k.pem", "data", "run.toml"):
        (code / name).chmod(0)
    problem = f"code: in {code}: cannot be read: data/, k.pem, run.toml"
    launch = f"Launch(name='a', jobs=[Job(processes=[Process(['true'])])], code=LocalDir('{code}'))"
    script = f"from bastion import *\nClient().launch({launch})"
    bastion, flag = programs.command, f"--code={code}"
    before = programs.place.keys("inbox/"), programs.place.keys("bundles/")
    for words, code_of_exit, said in (
        ([*bastion, "launch", flag, "--", "true"], 1, f"error: {problem}\nhint: fix them, or"),
        (
            [*bastion, "launch", "--dry_run", flag, "--", "true"],
            104,
            f"it would be refused: {problem}",
        ),
        ([*bastion, "bundle", str(code)], 1, problem),
        (
            [*bastion, "launch", f"{code}/run.toml"],
            2,
            f"{code}/run.toml: cannot be read: Permission",
        ),
        ([sys.executable, "-c", script], 1, f"BastionError: {problem}"),
    ):
        ran = subprocess.run([*BOUND, *words], env=programs.env, capture_output=True, text=True)
        assert (ran.returncode, said in ran.stderr) == (code_of_exit, True), ran.stderr
    assert (programs.place.keys("inbox/"), programs.place.keys("bundles/")) == before


def test_the_code_of_a_job_is_shown_and_run_again(programs: Programs, tmp_path: Path) -> None:
    """The commit, the tree's difference from it, the outputs; and a rerun with other settings."""
    head = commit(programs.project, {"a.py": "print('committed')\n"})
    line = (
        "import os\nprint('changed', os.environ.get('SEED', 'none'))\n"
        "open(os.environ['BASTION_OUTPUT_DIR'] + '/model', 'w').write('weights')\n"
    )
    trees.write(programs.project, {"a.py": line, "new.py": ""})
    job, _ = programs.follow("--bundler_type=local", "--", "python3", "a.py")
    shown = programs.run("show", job, "--code").stdout
    for said in (head, "1 file changed, 1 untracked", "-print('committed')", f"+{line[:9]}"):
        assert said in shown
    programs.clear_project()
    programs.run("fetch", job, str(tmp_path / "command"))
    programs.client.fetch(job, tmp_path / "api")
    for fetched in ("command", "api"):
        assert (tmp_path / fetched / "r0" / "model").read_text() == "weights"
    again = programs.run("rerun", job, "-q", "--priority=1", "--env=SEED=7").stdout.strip()
    assert programs.wait(again).priority == 1
    assert programs.printed(again) == "changed 7\n"
    assert programs.client.code(again).again_of == job
    (third,) = programs.client.rerun(job).wait().jobs
    assert programs.printed(third.id) == "changed none\n"
    programs.run("show", again, f"--checkout={tmp_path / 'tree'}")
    programs.client.checkout(job, tmp_path / "same")
    assert trees.read(tmp_path / "tree") == trees.read(tmp_path / "same")
    assert (tmp_path / "same" / "a.py").read_text() == line


@pytest.fixture
def server(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """An sshd that accepts the key of the machines and of this process."""
    folder = programs.folder / "ssh"
    (folder / "key").unlink()
    with sshd(folder) as made:
        (folder / "known_hosts").write_text(made.known_as("host"))
        for name in ("BASTION_GIT_KEY_FILE", "BASTION_GIT_KNOWN_HOSTS"):
            monkeypatch.setenv(name, programs.env[name])
        yield made


@needs_sshd
def test_a_private_repository_is_cloned_by_key(
    programs: Programs, server: Sshd, tmp_path: Path
) -> None:
    """Over ssh, with submodules, by the deploy key; later commits of the branch are not run."""
    commit(tmp_path / "lib", {"lib.py": "NAME = 'lib'\n"})
    top = tmp_path / "repo"
    commit(top, {"a.py": "import lib.lib; print('first', lib.lib.NAME)\n"})
    git(top, "submodule", "--quiet", "add", str(tmp_path / "lib"), "lib",
        settings=("protocol.file.allow=always",))  # fmt: skip
    git(top, "config", "--file=.gitmodules", "submodule.lib.url", server.url(tmp_path / "lib"))
    commit(top, {})
    url = server.url(top)
    spec = ["--bundler_type=git", f"--bundler_spec=url={url} branch=main submodules=true"]
    held = programs.run("launch", "-q", "--hold", *spec, "--", "python3", "a.py").stdout.strip()
    commit(top, {"a.py": "print('second')\n"})
    programs.client.release(held)
    programs.wait(held)
    assert programs.printed(held) == "first lib\n"
    where = Where(hostnames=[programs.client.pool().machines[0].name])
    ended = programs.launch("python3 a.py", code=GitRepo(url), where=where)
    assert programs.printed(ended.id) == "second\n"

    (server.folder / "known_hosts").write_text(server.known_as("stranger"))
    wrong = "presents another key than the known one"
    ran = programs.run("launch", *spec, "--", "true", check=False)
    assert (ran.returncode, wrong in ran.stderr) == (1, True)
    with pytest.raises(BastionError, match=wrong):
        programs.launch("true", code=GitRepo(url))
    again = programs.run("rerun", ended.id, "-q").stdout.strip()
    assert programs.wait(again).state == "succeeded", "the machine has that commit"


def test_repositories_by_http_and_with_large_files(programs: Programs, tmp_path: Path) -> None:
    """A short commit over http; large files are fetched where requested."""
    top = tmp_path / "repo"
    first = commit(top, {"a.py": "print('first')\n"})
    commit(top, {"a.py": "print('second')\n"})
    with served_by_http(tmp_path) as base:
        spec = f"--bundler_spec=url={base}/repo/.git commit={first[:8]}"
        _, printed = programs.follow("--bundler_type=git", spec, "--", "python3", "a.py")
        assert printed == "first\n"
        ended = programs.launch("python3 a.py", code=GitRepo(f"{base}/repo/.git"))
        assert programs.printed(ended.id) == "second\n"
    if subprocess.run(["git", "lfs", "version"], capture_output=True).returncode:
        pytest.skip("git-lfs is not installed (apt-get install git-lfs)")
    git(top, "lfs", "install", "--local")
    commit(top, {".gitattributes": "*.bin filter=lfs -text\n", "w.bin": b"weights"})
    spec = f"--bundler_spec=url={top.as_uri()} lfs=yes"
    assert programs.follow("--bundler_type=git", spec, "--", "cat", "w.bin")[1] == "weights"
    ended = programs.launch("cat w.bin", code=GitRepo(top.as_uri()))
    assert programs.printed(ended.id).startswith("version https://git-lfs")


def test_mistakes_are_reported_before_anything_is_sent(programs: Programs, tmp_path: Path) -> None:
    """By the command with its exit code, by the Python API as an error with the same text."""
    top = tmp_path / "repo"
    commit(top, {"a.py": ""})
    big = trees.write(tmp_path / "big", {"w.bin": b"0" * 3000})
    said: list[tuple[str, list[str], dict[str, Any]]] = [
        (
            "commit 1234567 of .* does not exist",
            ["--bundler_type=git", f"--bundler_spec=url={top.as_uri()} commit=1234567"],
            {"code": GitRepo(top.as_uri(), commit="1234567")},
        ),
        (
            "holds 2.9 KiB, more than max_size 1.0 KiB; the largest files are w.bin",
            ["--bundler_type=local", f"--bundler_spec=root={big} max_size=1KiB"],
            {"code": LocalDir(str(big), max_size="1KiB")},
        ),
        (
            "no Dockerfile at .*/big/Dockerfile",
            ["--bundler_type=docker", f"--bundler_spec=image=h/x context={big}"],
            {"code": DockerBuild(image="h/x", context=str(big))},
        ),
        (
            "python: requirements.txt is not in the code",
            [f"--code={big}", "--python_env=requirements.txt"],
            {"code": LocalDir(str(big)), "python": PythonEnv()},
        ),
    ]
    before = programs.place.keys("inbox/")
    for problem, flags, fields in said:
        ran = programs.run("launch", *flags, "--", "true", check=False)
        assert ran.returncode in (1, 2)
        with pytest.raises(BastionError, match=problem) as caught:
            programs.launch("true", **fields)
        assert str(caught.value) in ran.stderr
    ran = programs.run("bundle", "--bundler_spec=colour=red", check=False)
    assert (ran.returncode, "--bundler_spec: 'colour' is unknown" in ran.stderr) == (2, True)
    away = "http://127.0.0.1:1/x.git"
    flags = ["--bundler_type=git", f"--bundler_spec=url={away}"]
    ran = programs.run("launch", *flags, "--", "true", check=False)
    assert (ran.returncode, f"{away} cannot be reached" in ran.stderr) == (1, True)
    with pytest.raises(BastionError, match=f"{away} cannot be reached"):
        programs.launch("true", code=GitRepo(away))
    assert programs.place.keys("inbox/") == before
