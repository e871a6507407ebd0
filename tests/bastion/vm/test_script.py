"""The program of a bastion's VM: correct shell that keeps a real bastion running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from bastion import Client
from bastion.errors import BastionError
from bastion.provider.boot import cloud_init, own_wheel
from bastion.records.code.wheel import ensure_wheel
from bastion.store.folder.local import LocalStore
from bastion.vm.bastion_vm import BastionVm
from bastion.vm.script import KEPT_BYTES, LOG_BYTES, startup_script
from tests.bastion.vm.shared import VM
from tests.servers.s3 import free_port

EC2_BYTES = 16 << 10
"""Source: Amazon EC2 User Guide, "User data is limited to 16 KB"."""
DEADLINE_S = 60.0
IMAGE = "europe-docker.pkg.dev/acme/images/bastion:v1"


@pytest.mark.parametrize("image", ["", IMAGE])
def test_shellcheck_finds_nothing(tmp_path: Path, image: str) -> None:
    """Shellcheck finds no error in the script, or in the script within it."""
    shellcheck = Path(sys.executable).with_name("shellcheck")
    if not shellcheck.exists():
        pytest.skip("shellcheck is not installed")
    text = startup_script(replace(VM, image=image))
    inner = text.partition("cat >run.new <<'RUN'\n")[2].partition("\nRUN\n")[0]
    for name, each in (("script", text), ("run", f"#!/bin/sh\n{inner}\n")):
        (tmp_path / name).write_text(each)
        # 2154: `dir` comes from the outer script, which exports it.
        command = [str(shellcheck), "--exclude=SC2154", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stdout == ""


def test_it_fits_into_user_data() -> None:
    """EC2 accepts the script with cloud-init's frame."""
    vm = replace(VM, root_url="s3://bucket/" + "x" * 200, wheel="w" * 150, digest="d" * 64)
    assert len(cloud_init(startup_script(vm)).encode()) < EC2_BYTES


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """Provide a folder in which a VM's script runs; nothing that it started remains."""
    yield tmp_path
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get("BASTION_BOOT_DIR", "").startswith(str(tmp_path))
        except psutil.Error:
            continue
        if is_ours:
            process.kill()


def test_a_bastion_that_is_killed_is_begun_again(served: Path) -> None:
    """The VM installs the bucket's wheel and leads; a second run of its script adds nothing."""
    root = served / "root"
    store = LocalStore(root, makes_root=True)
    wheel = own_wheel()
    key = ensure_wheel(store, wheel.digest, wheel.name, wheel.data)
    vm = BastionVm(
        name="shared-bastion",
        root_url=root.as_uri(),
        zone="us-central1-a",
        wheel=key,
        digest=wheel.digest,
        metrics_port=free_port(),
    )
    run(served, vm)
    first = leader(root)
    with urlopen(f"http://127.0.0.1:{vm.metrics_port}/metrics", timeout=DEADLINE_S) as answer:
        assert "bastion_leads" in answer.read().decode()
    run(served, vm)
    os.kill(first, signal.SIGKILL)
    until(lambda: leader(root) not in (0, first))
    log = served / "vm" / "serve.log"
    until(lambda: log.read_text().count("leads epoch") == 2)
    assert "bastion: it ended with 137, and starts again in 1 s" in log.read_text()


def test_its_log_does_not_fill_the_disk(served: Path) -> None:
    """Of a log that has grown for months the last lines stay, and later ones follow them."""
    log = served / "vm" / "serve.log"
    log.parent.mkdir()
    with log.open("wb") as file:
        file.seek(LOG_BYTES)
        file.write(b"\nthe last line\n")
    tools = engine_in(served)
    (tools / "docker").write_text("#!/bin/sh\necho docker answers\nexit 1\n")
    run(served, replace(VM, image=IMAGE), tools=tools)
    until(lambda: log.stat().st_size <= KEPT_BYTES + (1 << 16))
    until(lambda: log.read_bytes().partition(b"\nthe last line\n")[2])


@pytest.mark.parametrize("registry", ["answers", "away"])
def test_an_image_is_run_by_the_engine(served: Path, registry: str) -> None:
    """A boot logs in and pulls the tag's current image; without the registry the old one runs."""
    tools = engine_in(served)
    if registry == "away":
        (served / "away").touch()
    vm = replace(VM, image=IMAGE, metrics_port=9420, metrics_host="10.0.0.7")
    run(served, vm, tools=tools, home="/proc")
    calls = served / "calls"
    until(lambda: calls.exists() and "docker run" in calls.read_text())
    said = calls.read_text().splitlines()
    assert said[:5] == [
        "docker-credential-gcr configure-docker --registries=europe-docker.pkg.dev",
        f"docker pull {IMAGE}",
        f"docker image inspect {IMAGE}",
        "docker rm --force bastion",
        f"docker run --rm --name bastion --log-driver none --network host {IMAGE} serve"
        " --root=gs://bucket/shared-bastion --name=shared-bastion"
        " --metrics_port=9420 --metrics_host=10.0.0.7",
    ]
    assert (served / "vm" / ".docker" / "config.json").exists()


def engine_in(folder: Path) -> Path:
    """Make an engine's programs, which note their calls, and return their folder."""
    tools = folder / "bin"
    tools.mkdir()
    for name in ("docker", "docker-credential-gcr"):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\necho {name} "$@" >>{folder}/calls\n' + TOOLS[name])
        tool.chmod(0o755)
    return tools


TOOLS = {
    "docker": 'case "$1" in pull) test ! -e "$dir/../away" ;; run) exec sleep 1000 ;; esac\n',
    "docker-credential-gcr": 'mkdir -p "$HOME/.docker" && : >"$HOME/.docker/config.json"\n',
}
"""An engine that has an image, whose containers run on; and what writes a login into the home."""


def run(folder: Path, vm: BastionVm, *, tools: Path | None = None, home: str = "") -> None:
    """Run the script of `vm`, as cloud-init or Google's agent does."""
    places = [str(tools)] if tools else []
    environ = {
        "PATH": os.pathsep.join([*places, str(Path(sys.executable).parent), "/usr/bin", "/bin"]),
        "HOME": home or str(folder),
        "BASTION_BOOT_DIR": str(folder / "vm"),
    }
    shell = shutil.which("sh")
    assert shell is not None
    subprocess.run([shell, "-c", startup_script(vm)], env=environ, check=True, timeout=DEADLINE_S)


def leader(root: Path) -> int:
    """Return the process that leads the bucket, once one does."""
    found: list[int] = []

    def is_one() -> bool:
        found[:] = processes(root)
        return len(found) == 1

    until(is_one)
    until(lambda: leads(root))
    return found[0]


def leads(root: Path) -> bool:
    """Whether a bastion has published that it leads."""
    try:
        return Client(root.as_uri(), user="ann").status().leader == "shared-bastion"
    except BastionError:
        return False


def processes(root: Path) -> list[int]:
    """Return every `serve` of the root."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "serve" in words and f"--root={root.as_uri()}" in words:
            found.append(process.pid)
    return found


def until(done: Callable[[], object]) -> None:
    """Wait until `done()` is true."""
    end = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)
