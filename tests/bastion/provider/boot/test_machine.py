"""A start-up script makes a machine: real shell, real bootstrap, real agent, on loopback."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import bastion.provider.boot.azure_call  # noqa: F401 - adds the requests of Azure
from bastion.agent.decommission import end_home
from bastion.clock import SystemClock
from bastion.machine import Batch, Build, Pool, Upgrade
from bastion.provider.boot import Boot, own_wheel, startup_script
from bastion.provider.boot.bucket_call import send
from bastion.records.coding.codec import decode, encode
from bastion.records.keys import layout
from bastion.records.reports.facts import Bell, BootFailed, Fact, Heartbeat, Hello
from bastion.store import ObjectStore, open_store
from quota.amounts import Amounts
from tests.servers.azurite import (
    ACCOUNT,
    azurite_server,
    make_container,
    needs_azurite,
    shared_access,
)
from tests.servers.gcs import GcsServer
from tests.servers.s3 import KEYS, credentials, make_bucket, moto_server

CLOCK = SystemClock()
PATIENCE_S = 120.0
MACHINE = "gpu-1-0"
POOL = Pool(
    name="gpu",
    provider="docker",
    resources=Amounts({"cpu": 2}),
    max_machines=1,
    labels={"cluster": "it's primary"},
    # It has what an agent needs, as an image may: so nothing is installed.
    options={"python": sys.executable},
)


@contextmanager
def booted(
    pool: Pool, root: str, folder: Path, environ: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a machine from its start-up script."""
    script = startup_script(pool, Boot.here(root, "b", stays=True), machine=f"printf %s {MACHINE}")
    env = {**os.environ, **environ, "BASTION_BOOT_DIR": str(folder)}
    with subprocess.Popen(["sh", "-c", script], env=env, start_new_session=True) as shell:
        try:
            yield shell
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            if (folder / "home").exists():
                end_home(folder / "home", patience_s=30.0)


def first_facts(store: ObjectStore) -> tuple[Fact, ...]:
    """Return the facts of the machine's first bell with news, which its clock check lacks."""
    until = CLOCK.monotonic() + PATIENCE_S
    while CLOCK.monotonic() < until:
        for entry in store.list(layout.bells(MACHINE)):
            found = store.read(entry.key)
            assert found is not None
            facts = decode(Bell, found.data, key=entry.key).facts
            if facts != (Heartbeat(),):
                return facts
        CLOCK.sleep(0.05)
    raise AssertionError("the machine said nothing")


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = f"file://{tmp_path}/root"
    put_wheel(open_store(root, makes_root=True))
    return root


def put_wheel(store: ObjectStore) -> None:
    wheel = own_wheel()
    store.create(layout.wheel(wheel.digest, wheel.name), wheel.data)


def test_a_new_machine_greets_with_its_steps(root: str, tmp_path: Path) -> None:
    """It runs the commands of its pool, then greets with its build, labels and steps."""
    pool = replace(POOL, setup=("echo ready >ran",))
    with booted(pool, root, tmp_path / "m", {}):
        (hello,) = first_facts(open_store(root))
    assert isinstance(hello, Hello)
    assert hello.build == own_wheel().digest
    assert hello.labels["cluster"] == "it's primary"
    assert [step.name for step in hello.steps] == ["downloaded", "installed", "set up", "checked"]
    assert (tmp_path / "m" / "ran").read_text() == "ready\n"


def test_a_file_in_the_folder_of_a_machine_is_no_module_of_ours(root: str, tmp_path: Path) -> None:
    """A file with one of our names is not run in place of the agent."""
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "bastion.py").write_text("raise SystemExit(9)\n")
    with booted(POOL, root, tmp_path / "m", {}):
        (hello,) = first_facts(open_store(root))
    assert isinstance(hello, Hello)


def test_a_failed_command_is_told_with_its_output(root: str, tmp_path: Path) -> None:
    """No agent greets; a bell says which command failed and how, and the script ends."""
    pool = replace(POOL, setup=("echo no driver here; exit 3",))
    with booted(pool, root, tmp_path / "m", {}) as shell:
        (failed,) = first_facts(open_store(root))
        assert shell.wait(PATIENCE_S) == 1
    assert isinstance(failed, BootFailed)
    assert failed.step == "setup" and failed.text.endswith("exited with 3: no driver here")


def other_wheel() -> tuple[str, bytes]:
    """Return the wheel of another build, the same program and one more file: digest and bytes."""
    packed = io.BytesIO(own_wheel().data)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("bastion/of_another_build.py", "")
    data = packed.getvalue()
    return hashlib.sha256(data).hexdigest(), data


def greeting(store: ObjectStore, build: str) -> tuple[int, Hello]:
    """Return the life and the greeting of the agent of a build, once it greets."""
    until = CLOCK.monotonic() + PATIENCE_S
    while CLOCK.monotonic() < until:
        for entry in store.list(layout.bells(MACHINE)):
            found, named = store.read(entry.key), layout.parse_bell(entry.key)
            assert found is not None and named is not None
            for fact in decode(Bell, found.data, key=entry.key).facts:
                if isinstance(fact, Hello) and fact.build == build:
                    return named[1], fact
        CLOCK.sleep(0.05)
    raise AssertionError(f"no agent of build {build} greets")


def test_an_idle_machine_becomes_of_another_build(root: str, tmp_path: Path) -> None:
    """The build is installed beside the old one, and greets in a new life."""
    store = open_store(root)
    digest, data = other_wheel()
    wheel = layout.wheel(digest, own_wheel().name)
    store.create(wheel, data)
    with booted(POOL, root, tmp_path / "m", {}):
        life, _ = greeting(store, own_wheel().digest)
        upgrade = Upgrade(build=Build(wheel=wheel, digest=digest))
        batch = Batch(number=1, life=life, instructions=(upgrade,))
        store.create(layout.instructions(MACHINE, life, 1), encode(batch))
        new_life, hello = greeting(store, digest)
    assert new_life == life + 1
    assert hello.heartbeat_s > 0
    assert not (tmp_path / "m" / "left").exists()
    assert (tmp_path / "m" / "current").read_text() == f"builds/{digest}"


@contextmanager
def clouds(kind: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Provide a bucket of that kind on loopback, and the variables by which it is found."""
    if kind == "gs":
        with GcsServer("bucket") as server:
            yield "gs://bucket/team a/bastion", {"STORAGE_EMULATOR_HOST": server.url}
        return
    if kind == "az":
        with TemporaryDirectory() as folder, azurite_server(Path(folder)) as url:
            make_container(url, "box")
            variables = {"AZURE_STORAGE_SAS_TOKEN": shared_access("rwdlac")}
            yield f"az://{ACCOUNT}/box/team~ä/bastion?endpoint_url={url}", variables
        return
    with moto_server() as url, credentials():
        make_bucket("bucket")
        variables = {"AWS_ENDPOINT_URL": url, "AWS_DEFAULT_REGION": "eu-west-1", **KEYS}
        yield "s3://bucket/team/bastion", variables


def test_a_failed_boot_is_told_though_its_log_takes_no_line(tmp_path: Path) -> None:
    """On a full disk, the log fails too; the bucket has room."""
    store = open_store(f"file://{tmp_path}/root", makes_root=True)
    boot = Boot(root_url=f"file://{tmp_path}/root", bucket="b", wheel="wheels/w", digest="0" * 64)
    store.create(boot.wheel, b"another wheel")
    script = startup_script(POOL, replace(boot, stays=True), machine=f"printf %s {MACHINE}")
    env = {**os.environ, "BASTION_BOOT_DIR": str(tmp_path / "boot")}
    with (
        Path("/dev/full").open("wb") as full,
        subprocess.Popen(["sh", "-c", script], env=env, stderr=full, start_new_session=True) as sh,
    ):
        try:
            (told,) = first_facts(store)
        finally:
            os.killpg(sh.pid, signal.SIGKILL)
    assert isinstance(told, BootFailed)
    assert told.text == "ValueError('wheels/w in the bucket does not match the digest in its name')"


def test_what_is_being_written_is_no_object(tmp_path: Path) -> None:
    """An incomplete write is never listed, as it would be set aside."""
    store = open_store(f"file://{tmp_path}", makes_root=True)
    store.create("inbox/bell.json/below", b"")  # so nothing can be at its key
    with pytest.raises(IsADirectoryError):
        send(f"file://{tmp_path}", "PUT", "inbox/bell.json", b"said")
    assert [entry.key for entry in store.list("")] == ["inbox/bell.json/below"]
    send(f"file://{tmp_path}", "PUT", "inbox/other.json", b"said")
    found = store.read("inbox/other.json")
    assert found is not None and found.data == b"said"


@pytest.mark.parametrize("kind", ["gs", "s3", pytest.param("az", marks=needs_azurite)])
def test_objects_travel_without_a_library(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bootstrap reads what a store wrote, and a store what the bootstrap wrote."""
    with clouds(kind) as (root, variables):
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        store = open_store(root)
        put_wheel(store)
        wheel = own_wheel()
        assert send(root, "GET", layout.wheel(wheel.digest, wheel.name)) == wheel.data
        key = layout.bell(MACHINE, 0, 5)
        send(root, "PUT", key, b"said")
        found = store.read(key)
        assert found is not None and found.data == b"said"
        with pytest.raises(OSError, match="409" if kind == "az" else "412"):
            send(root, "PUT", key, b"again")
