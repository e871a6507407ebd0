"""Images: built by a real daemon and pushed to a real registry, with clear errors without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bundler.code import DockerBuild
from bundler.errors import BuildError, BundleError, UnreachableError
from bundler.images.image import build
from bundler.images.registry import resolve_image
from tests.rigs import trees
from tests.servers.dockerd import Dockerd, dockerd, needs_dockerd


def test_a_missing_dockerfile_is_told(tmp_path: Path) -> None:
    """The missing file is named before any daemon is contacted."""
    with pytest.raises(BundleError, match=r"no Dockerfile at .*/docker/train.Dockerfile"):
        build(DockerBuild(image="h/x", context=".", file="docker/train.Dockerfile"), start=tmp_path)


def test_an_image_without_a_registry_is_told(tmp_path: Path) -> None:
    """An image that could not be pushed anywhere is refused before it is built."""
    trees.write(tmp_path, {"Dockerfile": "FROM scratch\n"})
    with pytest.raises(BundleError, match="image 'base' names no registry") as caught:
        build(DockerBuild(image="base", context="."), start=tmp_path)
    assert "repo=" in caught.value.hint


def test_no_daemon_is_told(tmp_path: Path) -> None:
    """Without a daemon, the error names where it was searched and what to do."""
    trees.write(tmp_path, {"Dockerfile": "FROM scratch\n"})
    nowhere = f"unix://{tmp_path}/docker.sock"
    with pytest.raises(UnreachableError, match=f"cannot be reached at {nowhere}") as caught:
        build(DockerBuild(image="h/x", context="."), start=tmp_path, daemon=nowhere)
    assert "start docker" in caught.value.hint


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dockerd]:
    """Run a daemon and a registry."""
    with dockerd(tmp_path_factory.mktemp("engine")) as made:
        yield made


class TestWithADaemon:
    """Tests against real servers."""

    pytestmark = needs_dockerd

    def test_an_image_is_built_and_pushed(self, engine: Dockerd, tmp_path: Path) -> None:
        """The requested stage is built with its arguments, and returned by digest."""
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
        assert resolve_image(f"{engine.registry}/team/train:1") == ref
        assert engine.docker("inspect", "-f", "{{.Config.Labels.who}}", ref.ref) == "me"

    def test_a_failing_build_shows_its_last_lines(self, engine: Dockerd, tmp_path: Path) -> None:
        """A failed build says where, with its last output."""
        trees.write(tmp_path, {"Dockerfile": "FROM scratch\nCOPY nothing /x\n"})
        with pytest.raises(BuildError, match=r"the build of .*/Dockerfile failed: .*") as caught:
            build(
                DockerBuild(image=f"{engine.registry}/t/x", context="."),
                start=tmp_path,
                daemon=engine.daemon,
            )
        assert any("COPY nothing" in line for line in caught.value.output)

    def test_a_refused_push_is_told(self, engine: Dockerd, tmp_path: Path) -> None:
        """A registry that does not answer is reported as a refused push, with the image."""
        trees.write(tmp_path, {"Dockerfile": "FROM scratch\nCOPY Dockerfile /x\n"})
        with pytest.raises(BundleError, match=r"the push of 127\.0\.0\.1:1/t/x was refused"):
            build(
                DockerBuild(image="127.0.0.1:1/t/x", context="."),
                start=tmp_path,
                daemon=engine.daemon,
            )
