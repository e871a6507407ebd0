"""
The API server: HTTP on loopback, users with tokens and permissions, and faults on demand.

It answers what `kubectl` asks about pods. Each sent pod and each answer is checked against the
schema; deviations are kept in `misfits`, and a test asserts that there is none.
"""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.rigs.limits import answering
from tests.servers.kubernetes.kubelet import Kubelet
from tests.servers.kubernetes.pods import ApiError, Json, Pods
from tests.servers.kubernetes.schema import problems

TOKEN = "a-token-of-the-bastion"
NAMESPACE = "ml"
USER = "system:serviceaccount:ml:bastion"
needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="needs kubectl (Debian: kubernetes-client)"
)
VERBS = ("create", "delete", "get", "list", "update")
_POD_PATH = "/api/v1/namespaces/"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Kubernetes:
    """
    A cluster of one namespace, whose nodes are this machine.

    Args:
        folder: The place of its files, and of the folders of its pods.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pods = Pods((NAMESPACE, "default"))
        self.kubelet = Kubelet(self.pods, folder)
        self.may: set[str] = set(VERBS)
        """What the bastion's user may do with pods."""
        self.may_list_events = True
        self.misfits: list[str] = []
        self.asked: list[str] = []
        """The requests, as `POST /path`."""
        self.is_down = self.is_expired = self.is_pacing = False
        self.dropped = self.lost = 0
        """How many of the next creates are not done, or done, without an answer."""
        self.url = ""
        self.certificate = folder / "certificate.pem"

    def config(self) -> Path:
        """Write the configuration of a client; return its path."""
        path = self.folder / "kubeconfig"
        # Without TLS, a client does not send its token.
        place = {"server": self.url, "certificate-authority": str(self.certificate)}
        made = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": place}],
            "users": [{"name": "bastion", "user": {"token": TOKEN}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "bastion"}}],
        }
        path.write_text(json.dumps(made))
        return path

    def answer(self, method: str, target: str, token: str, body: bytes) -> tuple[int, Json]:
        """Answer one request."""
        parts = urlsplit(target)
        asked = dict(parse_qsl(parts.query))
        with self.pods.lock:
            try:
                code, said = self._answered(method, parts.path, asked, token, body)
            except ApiError as error:
                code, said = error.code, error.status
            said = json.loads(json.dumps(said))
        if said.get("kind") in ("Pod", "PodList", "EventList", "Status"):
            self.misfits += problems(said)
        return code, said

    def _answered(
        self, method: str, path: str, asked: Mapping[str, str], token: str, body: bytes
    ) -> tuple[int, Json]:
        if path in _DISCOVERY:
            return 200, _DISCOVERY[path]
        if self.is_pacing:
            why = "the server has received too many requests and has asked us to try again later"
            raise ApiError(429, "TooManyRequests", why)
        if token != TOKEN or self.is_expired:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        self.asked.append(f"{method} {path}")
        said = json.loads(body) if body else {}
        if path == _REVIEWS:
            return 201, self._review(said)
        namespace, kind, name = [*path.removeprefix(_POD_PATH).split("/"), ""][:3]
        if not path.startswith(_POD_PATH) or kind not in ("pods", "events"):
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        if kind == "events":
            if not self.may_list_events:
                raise _forbidden("list", "events", namespace)
            return 200, self.pods.list_events(namespace, asked)
        self._check(method, namespace, name)
        if method == "POST":
            made = self.pods.create(namespace, said, is_dry=asked.get("dryRun") == "All")
            return 201, made
        if method == "PUT":
            self.misfits += problems(said)
            return 200, self.pods.replace(namespace, name, said)
        if method == "DELETE":
            self.misfits += problems({"kind": "DeleteOptions", "apiVersion": "v1", **said})
            return 200, self.pods.delete(namespace, name, said)
        if name:
            return 200, self.pods.get(namespace, name)
        return 200, self.pods.list(namespace, asked)

    def _check(self, method: str, namespace: str, name: str) -> None:
        verbs = {"POST": "create", "PUT": "update", "DELETE": "delete"}
        verb = verbs.get(method, "get" if name else "list")
        if verb not in self.may or namespace != NAMESPACE:
            raise _forbidden(verb, "pods", namespace, name)

    def _review(self, said: Json) -> Json:
        self.misfits += problems(said)
        asked = said["spec"]["resourceAttributes"]
        is_allowed = asked["namespace"] == NAMESPACE and (
            asked["verb"] in self.may
            if asked["resource"] == "pods"
            else (asked["verb"], asked["resource"]) == ("list", "events") and self.may_list_events
        )
        made = {**said, "status": {"allowed": is_allowed}}
        self.misfits += problems(made)
        return made


def _forbidden(verb: str, kind: str, namespace: str, name: str = "") -> ApiError:
    about = f' "{name}"' if name else ""
    return ApiError(
        403,
        "Forbidden",
        f'{kind}{about} is forbidden: User "{USER}" cannot {verb} resource "{kind}" in API'
        f' group "" in the namespace "{namespace}"',
        {"name": name, "kind": kind},
    )


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Kubernetes

    def do_GET(self) -> None:
        body = self._body()
        cluster = self.cluster
        is_create = self.command == "POST" and "/pods?" in f"{self.path}?"
        if cluster.is_down or (is_create and cluster.dropped):
            cluster.dropped = max(0, cluster.dropped - is_create)
            self.close_connection = True
            return
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        code, said = cluster.answer(self.command, self.path, token, body)
        if is_create and cluster.lost:
            cluster.lost -= 1
            self.close_connection = True
            return
        data = json.dumps(said).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - as the base class calls them

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        # The client was killed and sends nothing more.
        with suppress(OSError), self.context.wrap_socket(request, server_side=True) as talk:
            super().finish_request(talk, client_address)


def _context(certificate: Path) -> ssl.SSLContext:
    """Create a certificate of this machine that clients are told to trust."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-keyout", str(certificate), "-out", str(certificate.with_suffix(".crt"))]
    subprocess.run(words, check=True, capture_output=True)
    with certificate.open("a") as both:
        both.write(certificate.with_suffix(".crt").read_text())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@contextmanager
def kubernetes(folder: Path) -> Iterator[Kubernetes]:
    """Run a cluster with its files in `folder`, which exists; kill everything in the end."""
    cluster = Kubernetes(folder)
    handler = type("Answering", (_Answering,), {"cluster": cluster})
    server = _Server(("127.0.0.1", 0), handler)
    server.context = _context(cluster.certificate)
    cluster.url = f"https://127.0.0.1:{server.server_port}"
    with answering(server), cluster.kubelet.working():
        yield cluster


def _resources(group: str, *found: Json) -> Json:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group,
        "resources": list(found),
    }


_PODS = {
    "name": "pods",
    "singularName": "pod",
    "namespaced": True,
    "kind": "Pod",
    "verbs": list(VERBS),
    "shortNames": ["po"],
    "categories": ["all"],
}
_REVIEW = {
    "name": "selfsubjectaccessreviews",
    "singularName": "selfsubjectaccessreview",
    "namespaced": False,
    "kind": "SelfSubjectAccessReview",
    "verbs": ["create"],
}
_GROUP = {"groupVersion": "authorization.k8s.io/v1", "version": "v1"}
_DISCOVERY: dict[str, Json] = {
    "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0", "platform": "linux/amd64"},
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {
                "name": "authorization.k8s.io",
                "versions": [_GROUP],
                "preferredVersion": _GROUP,
            }
        ],
    },
    "/api/v1": _resources("v1", _PODS),
    "/apis/authorization.k8s.io/v1": _resources("authorization.k8s.io/v1", _REVIEW),
}
