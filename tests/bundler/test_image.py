"""Images: built by a real daemon and pushed to a real registry, and clear without them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bundler.code import DockerBuild
from bundler.errors import BuildError, BundleError, UnreachableError
from bundler.image import build
from tests.bundler import trees

_ENDS_S = 60.0


def test_a_missing_dockerfile_is_told(tmp_path: Path) -> None:
    """The file that is missing is named before any daemon is asked."""
    with pytest.raises(BundleError, match=r"no Dockerfile at .*/docker/train.Dockerfile"):
        build(DockerBuild(image="h/x", context=".", file="docker/train.Dockerfile"), start=tmp_path)


def test_an_image_without_a_registry_is_told(tmp_path: Path) -> None:
    """An image that could not be pushed anywhere is refused before it is built."""
    trees.write(tmp_path, {"Dockerfile": "FROM scratch\n"})
    with pytest.raises(BundleError, match="image 'base' names no registry") as caught:
        build(DockerBuild(image="base", context="."), start=tmp_path)
    assert "repo=" in caught.value.hint


def test_no_daemon_is_told(tmp_path: Path) -> None:
    """Without a daemon the error names where it was looked for and what to do."""
    trees.write(tmp_path, {"Dockerfile": "FROM scratch\n"})
    nowhere = f"unix://{tmp_path}/docker.sock"
    with pytest.raises(UnreachableError, match=f"cannot be reached at {nowhere}") as caught:
        build(DockerBuild(image="h/x", context="."), start=tmp_path, daemon=nowhere)
    assert "start docker" in caught.value.hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A daemon and a registry of the test's own."""

    daemon: str
    registry: str


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A dockerd without any network of its own, and a registry on loopback."""
    top = tmp_path_factory.mktemp("engine")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    (top / "registry.yml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {top}/images}}}}\n"
        f"http: {{addr: 127.0.0.1:{port}}}\n"
    )
    daemon = [
        "dockerd", "--data-root", f"{top}/data", "--exec-root", f"{top}/exec",
        "-H", f"unix://{top}/docker.sock", "-p", f"{top}/pid", "--iptables=false",
        "--ip6tables=false", "--bridge=none", "--ip-forward=false", "--ip-masq=false",
    ]  # fmt: skip
    registry = ["docker-registry", "serve", f"{top}/registry.yml"]
    servers = [
        subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for command in (daemon, registry)
    ]
    try:
        _await_line(servers[0], "API listen on")
        _await_line(servers[1], "listening on")
        yield Engine(daemon=f"unix://{top}/docker.sock", registry=f"127.0.0.1:{port}")
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(timeout=_ENDS_S)


needs_engine = [
    pytest.mark.prove,
    pytest.mark.skipif(
        not (shutil.which("dockerd") and shutil.which("docker-registry") and os.geteuid() == 0),
        reason="needs root, dockerd and docker-registry (Debian: docker.io, docker-registry)",
    ),
]


class TestWithADaemon:
    """Against real servers."""

    pytestmark = needs_engine

    def test_an_image_is_built_and_pushed(self, engine: Engine, tmp_path: Path) -> None:
        """The stage asked for is built with its arguments, and comes back by digest."""
        trees.write(
            tmp_path,
            {
                "d/Dockerfile": "FROM scratch AS one\nARG WHO=nobody\nLABEL who=$WHO\nCOPY a /a\n"
                "FROM scratch AS two\nCOPY gone /gone\n",
                "a": "hello",
            },
        )
        code = DockerBuild(
            image=f"{engine.registry}/team/train:1", context=".", file="d/Dockerfile",
            target="one", build_args={"WHO": "me"},
        )  # fmt: skip
        seen: list[str] = []
        ref = build(
            code, start=tmp_path, daemon=engine.daemon, report=lambda p: seen.append(p.step)
        )
        assert ref.ref.startswith(f"{engine.registry}/team/train@sha256:")
        assert set(seen) == {"build", "push"}
        label = ["docker", "-H", engine.daemon, "inspect", "-f", "{{.Config.Labels.who}}", ref.ref]
        assert subprocess.run(label, capture_output=True, check=True).stdout == b"me\n"

    def test_a_failing_build_shows_its_last_lines(self, engine: Engine, tmp_path: Path) -> None:
        """A build that fails says where, with what it last wrote."""
        trees.write(tmp_path, {"Dockerfile": "FROM scratch\nCOPY nothing /x\n"})
        with pytest.raises(BuildError, match=r"the build of .*/Dockerfile failed: .*") as caught:
            build(
                DockerBuild(image=f"{engine.registry}/t/x", context="."),
                start=tmp_path,
                daemon=engine.daemon,
            )
        assert any("COPY nothing" in line for line in caught.value.output)

    def test_a_refused_push_is_told(self, engine: Engine, tmp_path: Path) -> None:
        """A registry that does not answer is told as a refused push, with the image."""
        trees.write(tmp_path, {"Dockerfile": "FROM scratch\nCOPY Dockerfile /x\n"})
        with pytest.raises(BundleError, match=r"the push of 127\.0\.0\.1:1/t/x was refused"):
            build(
                DockerBuild(image="127.0.0.1:1/t/x", context="."),
                start=tmp_path,
                daemon=engine.daemon,
            )


def _await_line(server: subprocess.Popen[str], text: str) -> None:
    """Return when the server has written `text`, and go on reading, lest its pipe fill up."""
    assert server.stderr
    said = []
    for line in server.stderr:
        said.append(line)
        if text in line:
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return
    raise AssertionError(f"it ended: {''.join(said)[-2000:]}")
