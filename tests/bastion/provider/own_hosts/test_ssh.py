"""Machines on your own hosts: hosts' answers, missing programs, and missing answers."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bastion.errors import NoCapacityError, ProviderUnavailableError
from bastion.machine import Machine, Pool
from bastion.machine_name import pool_of
from bastion.provider.build import build_digest
from bastion.provider.machine_folder import end_agent
from bastion.provider.own_hosts.ssh import SshProvider
from quota.amounts import Amounts
from tests.end_to_end.programs import until

POOL = Pool(
    name="own",
    provider="ssh",
    resources=Amounts({"cpu": 1}),
    max_machines=2,
    zones=("one", "two"),
    machines_per_zone=1,
    permit_s=600.0,
    options={"python": sys.executable},
)
ONE = Machine(name="own-1-0", pool="own", zone="one")
TWO = Machine(name="own-1-1", pool="own", zone="two")

# A replacement for OpenSSH: runs the command here, in the home of its host, unless that is away.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
home={folder}/$2
echo "$2 $(echo "$3" | cut -c1-20)" >> {folder}/calls
[ -d "$home" ] || {{ echo "ssh: connect to host $2 port 22: No route to host" >&2; exit 255; }}
[ -e "$home/says" ] && exec cat "$home/says"
if [ -e "$home/waits" ]; then until [ -e "$(cat "$home/waits")" ]; do sleep 0.05; done; fi
[ -e "$home/user" ] && HOME="$home/user"  || HOME="$home"
export HOME BASTION_HOST_CLAIMS="$home" PATH="$home/bin:$PATH"
[ -e "$home/greeting" ] && cat "$home/greeting"
[ -e "$home/shell" ] && exec "$home/shell" -c "$3"
exec /bin/sh -c "$3"
"""


@pytest.fixture
def ssh(tmp_path: Path) -> Path:
    """Provide a program in place of ssh; hosts are the folders beside it."""
    path = tmp_path / "ssh"
    path.write_text(SSH.format(folder=shlex.quote(str(tmp_path))))
    path.chmod(0o755)
    for host in POOL.zones:
        (tmp_path / host).mkdir()
    return path


# A login shell that reads only this line of sh: as fish and tcsh do.
OTHER_SHELL = f"""#!{sys.executable}
import os, shlex, sys
said = shlex.split(sys.argv[2])
assert said[:3] == ["exec", "/bin/sh", "-c"] and len(said) == 4, "this is no sh"
os.execv(said[1], said[1:])
"""

# A replacement for the system's Python: makes environments in which ours runs.
PYTHON3 = f"""#!/bin/sh
case "$1 $2" in
"-m venv") mkdir -p "$4/bin" && ln -sf "$0" "$4/bin/python" ;;
"-m pip") ;;
*) exec {shlex.quote(sys.executable)} "$@" ;;
esac
"""

# A Python of 2020.
OLD_PYTHON = f"""#!/bin/sh
case "$1" in
-c) exec {shlex.quote(sys.executable)} -c "import sys; sys.version_info = (3, 9, 18); $2" ;;
esac
echo "SyntaxError: invalid syntax" >&2
exit 1
"""

Own = Callable[..., SshProvider]


@pytest.fixture
def own(ssh: Path, tmp_path: Path) -> Own:
    """Return a factory of providers of these hosts; without a bucket, no agent starts."""

    def make(build: str = build_digest(), **fields: Any) -> SshProvider:
        pool = replace(POOL, **fields)
        return SshProvider(
            f"file://{tmp_path}/none", pool, bucket="b", build=build, ssh=(str(ssh),)
        )

    return make


def test_a_host_gets_this_build_once(own: Own, tmp_path: Path) -> None:
    """A missing build is installed at the first call; another build is put beside it."""
    assert own().list() == ()
    first = (tmp_path / "calls").read_text().splitlines()
    assert own().list() == ()
    assert len((tmp_path / "calls").read_text().splitlines()) == len(first) + 2
    assert own(build="another").list() == ()
    builds = {path.name for path in (tmp_path / "one/.bastion/builds").iterdir()}
    assert builds == {build_digest(), "another"}


def test_a_host_that_an_admin_has_cleared_stays_bare(own: Own, tmp_path: Path) -> None:
    """Neither a list nor a delete installs it again, even while a Python is being removed."""
    provider = own()
    assert provider.list() == ()
    folder = tmp_path / "one/.bastion"
    shutil.rmtree(folder / "builds")
    for _ in range(2):
        assert provider.list() == ()
        provider.delete(ONE.name)
        assert not (folder / "builds").exists()


def test_a_host_that_does_not_answer_is_left_out(own: Own, tmp_path: Path) -> None:
    """Others are listed; if none answers, nothing is known."""
    (tmp_path / "two").rmdir()
    assert own().list() == ()
    (tmp_path / "one").rename(tmp_path / "away")
    with pytest.raises(ProviderUnavailableError, match="host one: ssh: connect"):
        own().list()


def test_a_host_that_hangs_delays_no_other(own: Own, tmp_path: Path) -> None:
    """The other host gets its turn: none waits for the first."""
    (tmp_path / "one/waits").write_text(f"{tmp_path}/two/.bastion/builds/{build_digest()}/whole")
    provider = own()
    assert provider.list() == ()
    assert provider.unreached() == {}


def test_a_host_holds_one_machine(own: Own, tmp_path: Path) -> None:
    """A create on a host with another machine, of any bucket, has no capacity."""
    taken = tmp_path / "one/.bastion/another/own-9-9"
    taken.mkdir(parents=True)
    (taken / "machine").write_text("own one\n")
    with pytest.raises(NoCapacityError, match="host one still holds machine own-9-9"):
        own().create([ONE], POOL)
    (taken / "gone").touch()
    with pytest.raises(NoCapacityError, match="pool own has no host 'three' any more"):
        own().create([replace(ONE, zone="three")], POOL)


def test_an_unknown_outcome_is_told(own: Own, tmp_path: Path) -> None:
    """A host that is away may have the machine: neither create nor delete reports success."""
    provider = own()
    (tmp_path / "two/says").write_text("cut off")
    with pytest.raises(ProviderUnavailableError, match="host two"):
        provider.create([TWO], POOL)
    (tmp_path / "two/says").unlink()
    (tmp_path / "two").rmdir()
    for _ in range(2):
        with pytest.raises(ProviderUnavailableError, match="host two"):
            provider.create([TWO], POOL)
        with pytest.raises(ProviderUnavailableError, match="host two"):
            provider.delete(TWO.name)


def test_a_host_that_is_not_reached_makes_room_for_the_next(own: Own, tmp_path: Path) -> None:
    """If nothing can have been created, the error says so, and the job is placed elsewhere."""
    (tmp_path / "two").rmdir()
    with pytest.raises(
        NoCapacityError, match="host two: ssh: connect to host two port 22: No"
    ) as told:
        own().create([TWO], POOL)
    assert told.value.is_away


@pytest.mark.parametrize(
    "said",
    [
        "no JSON",
        "[" * 100_000,
        "[]",
        json.dumps({"error": "home /: no space"}),
    ],
)
def test_an_answer_that_is_none_is_an_outage(own: Own, tmp_path: Path, said: str) -> None:
    """Whatever a host prints instead of an answer, its state stays unknown."""
    for host in POOL.zones:
        (tmp_path / host / "says").write_text(said)
    with pytest.raises(ProviderUnavailableError, match="host one"):
        own().list()


def test_only_machines_of_the_pool_are_listed(own: Own, tmp_path: Path) -> None:
    """Names that no commit allocates in this pool, and unknown states, are left out."""
    told = [
        {"name": "own-1-0", "pool": "own", "state": "running"},
        {"name": "other-1-0", "pool": "other", "state": "running"},
        {"name": "own", "pool": "own", "state": "running"},
        {"name": "own-1-1", "pool": "own", "state": "odd"},
        {"state": "running"},
        7,
    ]
    (tmp_path / "one" / "says").write_text(json.dumps({"machines": told}))
    (tmp_path / "two" / "says").write_text(json.dumps({"machines": 7}))
    (listed,) = own().list()
    assert (listed.name, listed.state, listed.zone) == ("own-1-0", "running", "one")
    assert pool_of(listed.name) == listed.pool


def test_a_python_that_lacks_something_is_told(own: Own, tmp_path: Path) -> None:
    """The last line of the host's output says what is missing."""
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho no module named pydantic >&2; exit 1\n")
    bare.chmod(0o755)
    with pytest.raises(ProviderUnavailableError, match="host one: no module named pydantic"):
        own(options={"python": str(bare)}).list()


def program(path: Path, text: str) -> Path:
    """Write a program of `text` at `path`."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_what_a_login_prints_first_is_no_answer(own: Own, tmp_path: Path) -> None:
    """A greeting that ends in the middle of a line is skipped, even in a removal."""
    (tmp_path / "one/greeting").write_text("Welcome!\nMaintenance on friday ")
    provider = own(zones=("one",))
    assert provider.list() == ()
    assert provider.remove("one") == ""
    assert not (tmp_path / "one/.bastion").exists()
    assert provider.remove("one") == "", "there is nothing to remove"


def test_a_login_may_have_another_shell(own: Own, tmp_path: Path) -> None:
    """Commands on a host are read by sh, whatever the shell of its login."""
    program(tmp_path / "one/shell", OTHER_SHELL)
    provider = own(zones=("one",))
    assert provider.list() == ()
    assert provider.remove("one") == ""


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (
            "one/shell",
            "#!/bin/sh\necho This account is not available.; exit 1\n",
            "its command ended with 1: This account is not available.",
        ),
        ("one/bin/python3", OLD_PYTHON, "its Python is 3.9, and 3.11 or later is needed"),
        (
            "one/bin/python3",
            "#!/bin/sh\n[ $1 = -c ] || { echo no environment is made; echo add venv; exit 1; }\n",
            "no environment is made add venv",
        ),
        (
            "one/bin/tar",
            "#!/bin/sh\necho tar: No space left on device >&2; echo tar: Exiting >&2; exit 2\n",
            "tar: No space left on device tar: Exiting",
        ),
    ],
)
def test_what_a_host_lacks_is_told(
    own: Own, tmp_path: Path, path: str, text: str, said: str
) -> None:
    """Any program, stream and line can say so; nothing incomplete is left there."""
    program(tmp_path / path, text)
    with pytest.raises(ProviderUnavailableError) as failed:
        own(zones=("one",), options={}).list()
    assert failed.value.message == f"host one: {said}"
    assert not [*tmp_path.glob("one/.bastion/builds/*"), *tmp_path.glob("one/.bastion/builds/.*")]


def test_an_old_python_that_a_pool_names_is_told(own: Own, tmp_path: Path) -> None:
    """The error is not the first syntax that it does not know."""
    old = program(tmp_path / "python3.9", OLD_PYTHON)
    with pytest.raises(ProviderUnavailableError, match=r"its Python is 3\.9, and 3\.11 or later"):
        own(options={"python": str(old)}).list()


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_python_that_no_longer_works_is_made_anew(
    own: Own, tmp_path: Path, is_gone: bool
) -> None:
    """An upgrade of the host's system, for example, removes what it was created from."""
    program(tmp_path / "one/bin/python3", PYTHON3)
    provider = own(zones=("one",), options={})
    assert provider.list() == ()
    (made,) = (tmp_path / "one/.bastion/python").iterdir()
    if is_gone:
        shutil.rmtree(made)
    else:
        (made / "bin/python").unlink()
        with pytest.raises(ProviderUnavailableError, match="not found"):
            provider.list()
    assert provider.list() == ()


def test_what_an_agent_needs_is_there_before_it_is_started(own: Own, tmp_path: Path) -> None:
    """An agent that ends immediately would only say why in a file on its host."""
    bare = program(tmp_path / "bare", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n')
    provider = own(options={"python": str(bare)})
    assert provider.list() == ()
    with pytest.raises(ProviderUnavailableError, match="host one: ModuleNotFoundError: No module"):
        provider.create([ONE], POOL)
    assert not (tmp_path / "one/.bastion/b").exists()


def test_an_agent_that_does_not_begin_tells_why(own: Own, tmp_path: Path) -> None:
    """It may not reach its bucket, for example without a mounted folder, or may have ended."""
    provider = own(zones=("one",))
    provider.create([ONE], POOL)
    try:
        until(lambda: provider.list()[0].stuck, "the host tells it")
        (listed,) = provider.list()
        assert listed.state == "running"
        assert listed.stuck.startswith("its agent does not start: ")
        assert "no keeper yet" not in listed.stuck
        assert f"{tmp_path}/none" in listed.stuck
        folder = tmp_path / "one/.bastion/b" / ONE.name
        end_agent(folder)
        until(lambda: provider.list()[0].state == "stopped", "it has ended")
        (folder / "home/agent.log").write_text("Traceback\nOSError: no room\n")
        assert provider.list()[0].stuck == "its agent does not start: OSError: no room"
    finally:
        provider.delete(ONE.name)
        until(lambda: provider.list()[0].state == "gone", "nothing of it runs")
    assert provider.list()[0].stuck == ""


def test_a_host_is_left_as_it_was_found(own: Own, tmp_path: Path) -> None:
    """Everything is removed, and no list of the same bastion restores it; another's does."""
    first = own(zones=("one",))
    first.list()
    assert first.remove("one") == ""
    assert not (tmp_path / "one/.bastion").exists()
    assert first.remove("one") == "", "there is nothing to remove"
    assert first.list() == ()
    assert not (tmp_path / "one/.bastion").exists()
    own(zones=("one",)).list()
    assert (tmp_path / "one/.bastion").exists()


def test_a_host_that_holds_a_machine_is_kept_whole(own: Own, tmp_path: Path) -> None:
    """Nothing is removed, and the machine of any bucket is named."""
    taken = tmp_path / "one/.bastion/another/own-9-9"
    taken.mkdir(parents=True)
    (taken / "machine").write_text("own one\n")
    said = own().remove("one")
    assert said.startswith("it still holds machine own-9-9 of pool own of bucket another, user ")
    assert (tmp_path / "one/.bastion/builds").exists()
    (taken / "gone").touch()
    assert own().remove("one") == ""
    (tmp_path / "two").rename(tmp_path / "away")
    with pytest.raises(ProviderUnavailableError, match="host two: ssh: connect"):
        own().remove("two")
