"""An image from its Dockerfile to a job's log: built, pushed, pinned, run in a container."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest

from bastion import DockerBuild, Image
from bastion.records.keys import layout
from bundler.images.registry import resolve_image
from tests.end_to_end.admin_files import QUOTA
from tests.end_to_end.programs import BOUND, Programs, until
from tests.end_to_end.roots import folder_root
from tests.rigs import trees
from tests.servers.dockerd import IMAGE, Dockerd, dockerd, has_shell, needs_dockerd

pytestmark = [
    pytest.mark.end_to_end,
    *needs_dockerd,
    pytest.mark.skipif(not has_shell(), reason="needs busybox-static"),
]

CONFIG = """
[pools.local]
provider = "local"
count = 1
resources = { h100 = 8 }
containers = true
"""


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dockerd]:
    """Run a daemon and a registry, with a base image."""
    with dockerd(tmp_path_factory.mktemp("engine")) as made:
        made.load_image()
        yield made


@pytest.fixture(scope="module")
def on(docker: Dockerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Run a bastion whose one machine runs containers."""
    folder = tmp_path_factory.mktemp("images")
    with folder_root(folder) as place:
        place.store.create(layout.QUOTA, QUOTA.encode())
        place.store.create(layout.CONFIG, CONFIG.encode())
        made = Programs(folder, place)
        made.env["DOCKER_HOST"] = docker.daemon
        try:
            made.serve()
            until(lambda: made.processes("bastion.agent.keeper"), "a keeper")
            yield made
        finally:
            made.stop_everything()
            sys.stdout.write(made.served)


def test_an_image_is_built_pushed_and_run(
    on: Programs, docker: Dockerd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The submitted image runs, even in a rerun after its tag moved."""
    monkeypatch.setenv("DOCKER_HOST", docker.daemon)
    file = f"FROM {IMAGE} AS base\nARG WHO\nRUN echo hello $WHO >/word\nFROM base\nRUN exit 1\n"
    trees.write(on.project, {"d/Dockerfile": file, "requirements.txt": ""})
    name = f"{docker.registry}/team/train"
    spec = f"--bundler_spec=image={name} tag=1 dockerfile=d/Dockerfile target=base context=."
    words = [
        "--bundler_type=docker",
        spec,
        "--bundler_spec=build_arg=WHO=ada",
        "--",
        "cat",
        "/word",
    ]
    first, printed = on.follow(*words)
    assert printed == "hello ada\n"
    shown = on.run("show", first, "--code").stdout
    exact = re.search(rf"^code +image ({name}@sha256:[0-9a-f]{{64}})$", shown, re.MULTILINE)
    assert exact

    code = DockerBuild(
        image=f"{name}:1",
        file="d/Dockerfile",
        target="base",
        context=str(on.project),
        build_args={"WHO": "lin"},
    )
    ended = on.launch("cat /word; echo $BASTION_JOB_NAME", code=code)
    assert on.printed(ended.id) == "hello lin\napi\n"
    ended = on.launch("cat /word", code=Image(f"{name}:1"))
    assert on.printed(ended.id) == "hello lin\n"
    team = [f"--bundler_spec={word}" for word in ("image=base", "dockerfile=d/Dockerfile")]
    team += ["--bundler_spec=target=base", f"--bundler_spec=repo={docker.registry}/team"]
    bundled = on.run("bundle", "--name=ada-bastion", "--bundler_type=artifactregistry", *team)
    tagged = resolve_image(f"{docker.registry}/team/base:ada-bastion")
    assert bundled.stdout == f"{tagged.ref}\n"

    (on.project / "key").touch(0o000)
    monkeypatch.setattr(on, "command", [*BOUND, *on.command])
    unread = on.run("bundle", "--bundler_type=docker", *team, check=False)
    said = f"error: code: {on.project}/key cannot be read: Permission denied\nhint: fix it"
    assert (unread.returncode, said in unread.stderr) == (1, True), unread.stderr

    docker.docker("image", "rm", "--force", exact[1])
    assert exact[1] not in docker.docker("images", "--digests")
    again = on.run("rerun", first, "-q").stdout.strip()
    assert on.wait(again).state == "succeeded"
    assert on.printed(again) == "hello ada\n"
