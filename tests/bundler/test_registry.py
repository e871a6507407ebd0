"""A tag becomes a digest at submission, by querying its registry as docker would."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bundler.errors import BundleError, UnreachableError
from bundler.images.login import login_for
from bundler.images.reference import HUB, split_reference
from bundler.images.registry import resolve_image
from tests.rigs.limits import answering

DIGEST = "sha256:" + "ab" * 32
BASIC = "Basic " + base64.b64encode(b"ada:secret:with colon").decode()


class Registry:
    """A registry on loopback with team/train:1, and the requests that it got."""

    def __init__(self) -> None:
        self.wants = ""
        """`basic` or `bearer`; empty: anyone can read."""
        self.digest = DIGEST
        self.tokens: list[str] = []
        registry = self

        class Answering(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                registry.answer(self)

            def do_GET(self) -> None:
                registry.tokens.append(self.path)
                is_known = self.headers.get("Authorization") in (None, BASIC)
                self.send_response(200 if is_known else 401)
                self.end_headers()
                self.wfile.write(json.dumps({"token": "t0k3n"}).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.name = f"127.0.0.1:{self.server.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer for a manifest."""
        right = {"": None, "basic": BASIC, "bearer": "Bearer t0k3n"}[self.wants]
        if right is not None and request.headers.get("Authorization") != right:
            challenge = f'Bearer realm="http://{self.name}/token",service="r",scope="pull"'
            request.send_response(401)
            wanted = challenge if self.wants == "bearer" else 'Basic realm="r"'
            request.send_header("WWW-Authenticate", wanted)
        elif request.path == "/v2/team/train/manifests/1":
            request.send_response(200)
            request.send_header("Docker-Content-Digest", self.digest)
        else:
            request.send_response(404)
        request.end_headers()


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """Run a registry, without a login anywhere."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    made = Registry()
    with answering(made.server):
        yield made


def log_in(folder: Path, registry: str, text: str = "ada:secret:with colon") -> None:
    """Log in as docker does."""
    auth = base64.b64encode(text.encode()).decode()
    (folder / "config.json").write_text(json.dumps({"auths": {registry: {"auth": auth}}}))


@pytest.mark.parametrize(
    ("ref", "parts"),
    [
        ("train", (HUB, "library/train", "latest", "", "train:latest")),
        ("team/train:1", (HUB, "team/train", "1", "", "team/train:1")),
        ("localhost/x", ("localhost", "x", "latest", "", "localhost/x:latest")),
        ("h:5000/a/b", ("h:5000", "a/b", "latest", "", "h:5000/a/b:latest")),
        ("r.io/a:1@" + DIGEST, ("r.io", "a", "", DIGEST, "r.io/a@" + DIGEST)),
    ],
)
def test_references_are_read_as_docker_does(ref: str, parts: tuple[str, ...]) -> None:
    """They have registry, repository, tag and digest; without a registry, it is docker.io."""
    made = split_reference(ref)
    assert (made.registry, made.repository, made.tag, made.digest, made.exact) == parts


def test_a_tag_becomes_a_digest(registry: Registry) -> None:
    """The image currently under the tag in the registry is the one that will run."""
    assert resolve_image(f"{registry.name}/team/train:1").ref == (
        f"{registry.name}/team/train@{DIGEST}"
    )


def test_a_digest_is_not_asked_for(registry: Registry) -> None:
    """An exact image stays as it is, although no registry could be queried."""
    assert resolve_image(f"127.0.0.1:1/a:1@{DIGEST}").ref == f"127.0.0.1:1/a@{DIGEST}"


@pytest.mark.parametrize("wants", ["basic", "bearer"])
def test_the_login_of_docker_is_used(registry: Registry, tmp_path: Path, wants: str) -> None:
    """A registry that requires a login gets docker's for it, and no other registry does."""
    registry.wants = wants
    log_in(tmp_path, registry.name)
    assert resolve_image(f"{registry.name}/team/train:1").ref.endswith(DIGEST)
    assert registry.tokens == (["/token?service=r&scope=pull"] if wants == "bearer" else [])


def test_a_token_needs_no_login_where_anyone_may_read(registry: Registry) -> None:
    """A public image of a registry with tokens is read without a login."""
    registry.wants = "bearer"
    assert resolve_image(f"{registry.name}/team/train:1").ref.endswith(DIGEST)


def test_an_image_that_is_not_there_is_refused(registry: Registry) -> None:
    """A typo in a tag is reported immediately."""
    with pytest.raises(BundleError, match=f"{registry.name} has no image {registry.name}/x:2"):
        resolve_image(f"{registry.name}/x:2")


@pytest.mark.parametrize(
    ("wants", "why"), [("basic", "it requires a login"), ("bearer", "Unauthorized")]
)
def test_a_registry_that_refuses_cannot_be_asked(
    registry: Registry, tmp_path: Path, wants: str, why: str
) -> None:
    """Machines may read what you cannot: that is no error in the reference."""
    registry.wants = wants
    if wants == "bearer":
        log_in(tmp_path, registry.name, "ada:wrong")
    with pytest.raises(UnreachableError, match=why):
        resolve_image(f"{registry.name}/team/train:1")


def test_an_answer_without_a_digest_is_no_answer(registry: Registry) -> None:
    """A proxy that answers in place of the registry is not believed."""
    registry.digest = "sha256:short"
    with pytest.raises(UnreachableError, match="its answer has no digest but 'sha256:short'"):
        resolve_image(f"{registry.name}/team/train:1")


def test_no_registry_cannot_be_asked() -> None:
    """A missing registry is named, with the reason."""
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1 does not say .*: .*refused"):
        resolve_image("127.0.0.1:1/team/train:1")


def test_a_program_that_keeps_logins_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clouds' credential helpers work as with docker."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "config.json").write_text('{"credHelpers": {"r.io": "mine", "s.io": "none"}}')
    program = tmp_path / "docker-credential-mine"
    said = '{"Username": "%s", "Secret": "x"}'
    program.write_text(f"#!/bin/sh\nread server\nprintf '{said}' $server\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    login = login_for("r.io")
    assert login is not None
    assert (login.user, login.password) == ("r.io", "x")
    said = json.loads(base64.urlsafe_b64decode(login.header))
    assert said == {"username": "r.io", "password": "x", "serveraddress": "r.io"}
    assert login_for("other.io") is None
    with pytest.raises(BundleError, match=r"docker-credential-none, which has the login to s\.io"):
        login_for("s.io")


def test_a_config_that_is_no_json_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken file is named, and not mistaken for a missing login."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(BundleError, match=r"config\.json cannot be understood"):
        login_for("r.io")
