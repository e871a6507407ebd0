"""The command as a process: its cost to start, pipes, Ctrl-C, bytes, completion."""

from __future__ import annotations

import ast
import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.grammar.shells import script
from launch.reference import PLACE, reference
from launch.verbs import build
from tests.launch.bucket import JOB, Bucket
from tests.launch.process import COMMAND, ROOT, environment
from tests.rigs.scripted_bastion import end, print_log, publish, row


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    """Provide a bucket with one running job."""
    return Bucket(tmp_path / "bucket")


@pytest.mark.parametrize("words", [["--help"], ["launch", "--help"], ["lst"]])
def test_help_and_mistakes_load_next_to_nothing(words: list[str]) -> None:
    """They load no client, validator, rich, absl or other verb, and are therefore fast."""
    code = (
        "import sys\nfrom launch.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "heavy = ('bastion.client', 'quota.tree', 'bundler', 'pydantic', 'rich', 'absl',"
        " 'launch.commands.look')\n"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr.splitlines()[-1] == "[]"


HEAVY = (
    *("pydantic", "rich", "absl", "dataclasses", "inspect", "shutil", "textwrap", "difflib"),
    *("asyncio", "ssl", "socket", "subprocess", "tempfile", "logging", "email", "http", "random"),
    *("psutil", "fsspec", "bastion.client.change.operator", "bastion.scheduler.cycle"),
    *("bastion.records.root", "bastion.client.follow.logs", "bastion.client.code.upload"),
    *("hashlib", "threading", "fractions", "locale", "getpass"),
    *("bastion.lifecycle.step", "bastion.machine", "launch.grammar.unknown_words"),
)
"""Modules that take a tenth of a short command's time or more, or indicate such a cost."""
LOOKS = (
    *("bastion.client.look.views", "bastion.client.look.published", "bastion.client.look.watch"),
    *("bastion.job", "bastion.records.requests.request", "heapq", "launch.screen.followed"),
)
"""Modules that only a view of jobs needs."""
PATHS = ("pathlib", "urllib.parse", "ipaddress", "select", "fcntl", "shlex", "signal")
"""Modules not needed for a bucket in a folder without pipes or interrupts."""
SUBMITS = (
    *("decimal", "tomllib"),
    *("bastion.client.submit.check", "bastion.client.submit.context", "quota.tree"),
    *("bastion.records.requests.origin", "bastion.catalog", "launch.submission.flags"),
)
"""Modules that only a submission needs: random names, the quota file, checks."""


def loads(words: list[str], names: tuple[str, ...], bucket: Bucket, tmp_path: Path) -> list[str]:
    """Return which modules of these `names` a command loads until its end."""
    code = (
        "import sys\nfrom launch.cli import main\nmain(sys.argv[1:])\n"
        f"print([m for m in {names!r} if m in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=environment(bucket, tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = ast.literal_eval(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("verb", [["list"], ["list", "-q"], ["why", JOB], ["show", JOB]])
def test_a_look_loads_next_to_nothing(verb: list[str], bucket: Bucket, tmp_path: Path) -> None:
    """In a pipe, it needs no validator, no rich, and nothing for submissions."""
    assert not loads(verb, HEAVY + SUBMITS, bucket, tmp_path)


def test_a_cancel_loads_next_to_nothing(bucket: Bucket, tmp_path: Path) -> None:
    """It looks up a name and sends a request, without what a submission needs."""
    with bucket.bastion():
        assert not loads(["cancel", "-q", JOB], HEAVY + SUBMITS, bucket, tmp_path)


def test_a_launch_loads_what_it_checks_with(bucket: Bucket, tmp_path: Path) -> None:
    """It reads the quota file and checks the launch without a validator."""
    with bucket.bastion():
        words = ["launch", "-q", "--user_id=ada", "--", "true"]
        assert not loads(words, HEAVY + LOOKS + PATHS, bucket, tmp_path)


@pytest.mark.parametrize(
    ("words", "most"),
    [
        (["launch", "-q", "--user_id=ada", "--", "true"], 131),
        (["why", JOB], 85),
        (["list"], 81),
        (["cancel", "-q", JOB], 99),
        (["status"], 77),
    ],
)
def test_a_short_command_loads_few_modules(
    words: list[str], most: int, bucket: Bucket, tmp_path: Path
) -> None:
    """Loading a module of ours takes 0.2 ms: the total number is limited here."""
    names = tuple(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for room in ("bastion", "bundler", "launch", "quota")
        for path in (ROOT / room).rglob("*.py")
    )
    with bucket.bastion():
        assert len(loads(words, names, bucket, tmp_path)) <= most


def test_only_the_verb_that_is_typed_is_built() -> None:
    """`launch` and `run` have sixty flags each: a launch builds them once."""
    assert set(build("launch")[1].parsers) == {"launch"}
    assert set(build("run")[1].parsers) == {"run"}
    assert {"launch", "run", "list"} <= set(build()[1].parsers)


def test_a_broken_pipe_is_quiet(bucket: Bucket, tmp_path: Path) -> None:
    """`bastion list | head -1` ends like any other tool, with nothing on stderr."""
    publish(bucket.store, "queue", {"jobs": [row(f"a-{n:010d}") for n in range(5000)]})
    with subprocess.Popen(
        [*COMMAND, "list"],
        env=environment(bucket, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141


def test_on_a_terminal_there_are_colours_and_relative_times(bucket: Bucket, tmp_path: Path) -> None:
    """A person sees a drawn table with the same words as in a pipe."""
    ours, theirs = pty.openpty()
    env = environment(bucket, tmp_path) | {"COLUMNS": "150", "TERM": "xterm-256color"}
    with subprocess.Popen([*COMMAND, "list"], env=env, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # Linux says EIO where the other side is closed
            while data := os.read(ours, 4096):
                shown += data
        assert process.wait(30) == 0
    os.close(ours)
    assert b"\x1b[34mrunning\x1b[0m" in shown
    assert JOB.encode() in shown
    assert b" ago" in shown.splitlines()[-1]


def test_ctrl_c_detaches_and_says_so(bucket: Bucket, tmp_path: Path) -> None:
    """Following ends with 130, all output so far is printed, and the job continues."""
    print_log(bucket.store, JOB, b"\x00\xffbytes")
    with subprocess.Popen(
        [*COMMAND, "logs", "train", "-f"],
        env=environment(bucket, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(7) == b"\x00\xffbytes"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        told = process.stderr.read().decode()
    assert told == f"detached; {JOB} continues; to follow it again: bastion logs {JOB} -f\n"
    assert not bucket.store.list("inbox/")


def test_logs_that_exit_with_the_code_print_all(bucket: Bucket, tmp_path: Path) -> None:
    """For a running job, `logs --exit` also prints what follows until its end."""
    print_log(bucket.store, JOB, b"first\n")
    with subprocess.Popen(
        [*COMMAND, "logs", "train", "--exit"],
        env=environment(bucket, tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(6) == b"first\n"
        print_log(bucket.store, JOB, b"last\n")
        end(bucket.store, JOB, outcome="failed", code=3)
        publish(bucket.store, "queue", {"jobs": []})
        assert process.stdout.read() == b"last\n"
        assert process.wait(30) == 3


def test_an_argument_that_is_not_utf8_reaches_the_spec(bucket: Bucket, tmp_path: Path) -> None:
    """A command may contain any byte but NUL; what cannot be stored is an error, not changed."""
    ran = subprocess.run(
        [*map(os.fsencode, COMMAND), b"launch", b"--dry_run", b"--", b"cat", b"\xff"],
        env=environment(bucket, tmp_path),
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr == b"error: command[1]: '\\udcff' is not UTF-8\n"


@pytest.mark.parametrize(
    "words",
    [
        [b"history", b"--name=\xff"],
        [b"cordon", b"--reason=\xff", b"m"],
        [b"launch", b"--env=A=\xff", b"--", b"true"],
        [b"config", b"set", b"user=\xff"],
    ],
)
def test_a_word_that_is_not_utf8_is_refused(
    words: list[bytes], bucket: Bucket, tmp_path: Path
) -> None:
    """It is refused with a message before anything is read or stored."""
    ran = subprocess.run(
        [*map(os.fsencode, COMMAND), *words],
        env=environment(bucket, tmp_path),
        capture_output=True,
        check=False,
    )
    (bad,) = (word for word in words if b"\xff" in word)
    told = repr(os.fsdecode(bad))
    assert ran.returncode == 2
    assert ran.stderr.decode() == f"error: {told} is not UTF-8\nhint: encode it as UTF-8\n"


def completed(shell_words: str, tmp_path: Path) -> list[str]:
    """Return bash's completions of a line, with a `bastion` in the path that knows one job."""
    fake = tmp_path / "bastion"
    fake.write_text(
        '#!/bin/sh\ncase "$*" in "list -q") echo train-0123456789;;'
        ' "list --all -q") echo train-0123456789 trial-9876543210;; "pool -q") echo west;; esac\n'
    )
    fake.chmod(0o755)
    (tmp_path / "completion").write_text(script("bash", build()[1].parsers))
    words = shell_words.split(" ")
    line = f"COMP_WORDS=({shell_words}); COMP_CWORD={len(words) - 1}; _bastion"
    if not words[-1]:
        line = f"COMP_WORDS=({shell_words} ''); COMP_CWORD={len(words) - 1}; _bastion"
    ran = subprocess.run(
        ["bash", "-c", f'. {tmp_path}/completion; {line}; echo "${{COMPREPLY[@]}}"'],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not ran.stderr
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("bastion ca", ["cancel"]),
        ("bastion launch --inst", ["--instance_type"]),
        ("bastion cancel tr", ["train-0123456789"]),
        ("bastion logs tr", ["train-0123456789", "trial-9876543210"]),
        ("bastion list --state = ru", ["running"]),
        ("bastion launch --when_busy fa", ["fail"]),
        ("bastion launch --pool = we", ["west"]),
        ("bastion quota ", ["show", "check", "diff", "apply", "edit"]),
        ("bastion completion f", ["fish"]),
    ],
)
def test_bash_completes_verbs_flags_and_jobs(line: str, offered: list[str], tmp_path: Path) -> None:
    """Verbs, flags and values are in the script; jobs and pools come from `bastion VERB -q`."""
    assert completed(line, tmp_path) == offered


@pytest.mark.parametrize(
    ("shell", "check"),
    [
        ("zsh", lambda text: text.startswith("autoload")),
        ("fish", lambda text: "-l when_busy" in text),
    ],
)
def test_other_shells_have_scripts_too(shell: str, check: Callable[[str], bool]) -> None:
    """Zsh runs bash's script; fish has its own."""
    assert check(script(shell, build()[1].parsers))


def test_the_reference_is_fresh() -> None:
    """`docs/reference/cli.md` is what `python -m launch.reference` prints now."""
    assert PLACE.read_text() == reference(), "run python -m launch.reference"


@pytest.mark.parametrize("encoding", ["ascii", "ascii:surrogateescape"])
def test_a_stream_of_another_encoding_shows_what_it_can(
    bucket: Bucket, tmp_path: Path, encoding: str
) -> None:
    """Characters without an equivalent are escaped, and JSON stays JSON; also in the C locale."""
    words = ["launch", "--dry_run", "--env=A=\u044f", "--", "true"]
    env = environment(bucket, tmp_path) | {"PYTHONIOENCODING": encoding}
    for more, shown in (([], 'A = "\\u044f"'), (["--json"], '"A": "\\u044f"')):
        ran = subprocess.run(
            [*COMMAND, words[0], *more, *words[1:]],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, shown in ran.stdout) == (0, True), ran.stderr


def test_a_current_folder_that_is_gone_is_told(bucket: Bucket, tmp_path: Path) -> None:
    """The error is not about standard output."""
    gone = tmp_path / "gone"
    gone.mkdir()
    line = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    ran = subprocess.run(
        ["bash", "-c", line, "bash", str(gone), *COMMAND, "up", "--root=x"],
        env=environment(bucket, tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr == (
        "error: the current folder: No such file or directory\n"
        "hint: it was removed: change to an existing folder\n"
    )
