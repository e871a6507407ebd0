"""The wheel of this program: built from its own files, and accepted by pip."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from bastion.provider.boot import own_wheel
from bastion.provider.boot.wheel import BASTION_EXTRAS, EXTRAS, needed
from tests.house import rules


def test_it_holds_every_source_file() -> None:
    """All modules of the four packages are in it, and its digest is that of its bytes."""
    wheel = own_wheel()
    assert hashlib.sha256(wheel.data).hexdigest() == wheel.digest
    with zipfile.ZipFile(io.BytesIO(wheel.data)) as packed:
        names = set(packed.namelist())
    assert {path.relative_to(rules.REPOSITORY).as_posix() for path in rules.sources()} <= names


def test_pip_installs_it(tmp_path: Path) -> None:
    """Pip accepts it as a wheel: its hashes and its metadata are correct."""
    wheel = own_wheel()
    (tmp_path / wheel.name).write_bytes(wheel.data)
    to = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, "--no-compile", "--target", to, tmp_path / wheel.name], check=True)
    assert (to / "bastion" / "agent" / "main.py").is_file()
    assert (to / "bin" / "bastion").is_file()


def test_it_pins_what_an_agent_needs() -> None:
    """It lists the requirements of each kind of bucket, with the local versions."""
    with zipfile.ZipFile(io.BytesIO(own_wheel().data)) as packed:
        (pins,) = (name for name in packed.namelist() if name.endswith("pins.txt"))
        pinned = dict(line.split("==") for line in packed.read(pins).decode().split())
    assert pinned["pydantic"] == version("pydantic")
    assert pinned["requests"] == version("requests"), "an extra of google-auth"
    for extra in EXTRAS.values():
        for line in needed(extra):
            name = line.partition(">")[0].partition("[")[0]
            assert pinned[name.lower()] == version(name)
    assert any("boto3" in line for line in needed("aws"))
    assert not any("boto3" in line for line in needed("gcp"))


@pytest.mark.parametrize("kind", EXTRAS)
def test_a_bastion_installs_what_keeps_the_record(kind: str) -> None:
    """A bastion's VM gets DuckDB and Prometheus' client, pinned, whatever its bucket is."""
    with zipfile.ZipFile(io.BytesIO(own_wheel().data)) as packed:
        told = {name.rpartition("/")[2]: packed.read(name).decode() for name in packed.namelist()}
    installed = {_name(line) for line in told[f"bastion-{kind}.txt"].split("\n")}
    assert {"duckdb", "prometheus-client"} <= installed
    pins = dict(line.split("==") for line in told["pins.txt"].split())
    assert pins["duckdb"] == version("duckdb")
    assert pins["prometheus-client"] == version("prometheus-client")
    agents = {_name(line) for line in told[f"agent-{kind}.txt"].split("\n")}
    assert not {"duckdb", "prometheus-client"} & agents


def test_the_image_holds_what_a_bastion_needs() -> None:
    """The Dockerfile's image serves every kind of bucket, its record, metrics and pages."""
    text = (rules.REPOSITORY / "Dockerfile").read_text()
    (found,) = re.findall(r"\*\.whl\)\[([a-z,-]+)\]", text)
    extras = set(found.split(",")) | {"gcp", "metrics"}  # those that gce and web bring
    assert {"gce", "web"} <= set(found.split(","))
    installed = {_name(line) for line in needed(*extras)}
    asked = {_name(line) for more in BASTION_EXTRAS.values() for line in needed(*more)}
    assert asked | {"starlette"} <= installed


def _name(line: str) -> str:
    return re.split(r"[\[<>=;]", line)[0]


@pytest.mark.parametrize("kind", EXTRAS)
def test_agents_on_tpus_install_what_asks_libtpu(kind: str) -> None:
    """Only agents of `gcp_tpu` pools install `tpu-info`, with every pin that it brings."""
    with zipfile.ZipFile(io.BytesIO(own_wheel().data)) as packed:
        told = {name.rpartition("/")[2]: packed.read(name).decode() for name in packed.namelist()}
    agent, tpu = (set(told[f"{needs}-{kind}.txt"].split("\n")) for needs in ("agent", "tpu"))
    assert agent < tpu
    assert {_name(line) for line in tpu - agent} == {"tpu-info"}
    pins = {line.partition("==")[0] for line in told["pins.txt"].split()}
    assert {"tpu-info", "grpcio", "immutabledict"} <= pins
