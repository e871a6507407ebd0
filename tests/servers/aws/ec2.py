"""
moto as an EC2 on loopback, behind a layer that adds what moto lacks.

* Client tokens: the same request gets the same answer, and another request with the token is
  refused, even after a failure. A token whose instances are gone is refused with another message.
* Zones without stock and limits: a request is fulfilled entirely or not at all. Images must exist.
* Instances take time to boot and to end, and the list may lag: `tick` lets time pass.
* Lost answers, throttling, expired credentials, missing permissions.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from threading import RLock
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tests.rigs.limits import answering
from tests.servers.s3 import credentials

ACCOUNT, REGION = "123456789012", "us-east-1"
ZONES = ("us-east-1a", "us-east-1b")
PROFILE = "bastion-agent"
"""An instance profile that exists."""
_CHANGES = ("RunInstances", "TerminateInstances", "StartInstances")


@dataclass
class Refusal:
    """An error that EC2 answers with a few times."""

    code: str
    message: str = "as the test wants"
    status: int = 400
    times: int = 1 << 30
    after: int = 0
    """How many calls are answered normally first."""


@dataclass
class Ec2World:
    """What the region does, and the switches with which a test changes that."""

    endpoint: str = ""
    page: int = 1000
    """The maximum number of reservations on a page of a list."""
    stock: dict[str, int] = field(default_factory=dict)
    """Zone -> how many more instances it can create; a zone without an entry creates any number."""
    refusals: dict[str, Refusal] = field(default_factory=dict)
    """Action, or "*" for each -> the error of its answer."""
    lost: int = 0
    """How many of the next changes are made without an answer."""
    dropped: int = 0
    """How many of the next changes are neither made nor answered."""
    lag: int = 0
    """For how many ticks a new instance is missing from lists."""
    boot: int = 1
    """After how many ticks an instance runs."""
    garbled: bool = False
    """Whether errors are not XML."""
    stays: bool = False
    """Whether terminating instances never end."""
    calls: list[str] = field(default_factory=list)
    """The requested actions, in order."""
    requests: list[dict[str, str]] = field(default_factory=list)
    """The parameters of each RunInstances that created instances."""
    on_boot: Callable[[Any], None] = lambda instance: None
    """Called with each instance that starts to run."""
    on_end: Callable[[Any], None] = lambda instance: None
    """Called with each instance that has ended."""

    def __post_init__(self) -> None:
        self._lock = RLock()
        self._now = 0
        self._made: dict[str, int] = {}
        """Instance -> the tick at which it was created."""
        self._hidden: set[str] = set()
        self._tokens: dict[str, tuple[str, tuple[str, list[tuple[str, str]], bytes] | None]] = {}
        self._app: Any = None

    @property
    def backend(self) -> Any:
        """Return the region, as moto keeps it."""
        from moto.backends import get_backend

        return get_backend("ec2")[ACCOUNT][REGION]

    def instances(self) -> tuple[Any, ...]:
        """Return every instance that is not forgotten, as moto keeps it, in the order of launch."""
        found = [each for each in self.backend.all_instances() if each.id in self._made]
        return tuple(sorted(found, key=lambda each: (self._made[each.id], each.ami_launch_index)))

    def alive(self) -> tuple[Any, ...]:
        """Return the instances that cost money."""
        return tuple(
            each for each in self.instances() if each.state not in ("terminated", "shutting-down")
        )

    def tick(self) -> None:
        """Let a while pass."""
        with self._lock:
            self._now += 1
            booted, ended = [], []
            for each in self.instances():
                if each.state == "pending" and self._now - self._made[each.id] >= self.boot:
                    _enter(each, "running", 16)
                    booted.append(each)
                elif each.state == "stopping":
                    _enter(each, "stopped", 80)
                elif each.state == "shutting-down" and not self.stays:
                    _enter(each, "terminated", 48)
                    ended.append(each)
        for each in booted:
            self.on_boot(each)
        for each in ended:
            self.on_end(each)

    def interrupt(self, instance: Any) -> None:
        """Take a spot instance back."""
        _enter(instance, "terminated", 48)
        instance.state_reason.code = "Server.SpotInstanceTermination"
        instance.state_reason.message = "Server.SpotInstanceTermination: Spot instance termination"
        self.on_end(instance)

    def forget_the_dead(self) -> None:
        """Let an hour pass: instances that have ended are no longer listed."""
        for each in self.instances():
            if each.state == "terminated":
                del self._made[each.id]

    def stop(self, instance: Any) -> None:
        """Stop an instance manually."""
        _enter(instance, "stopping", 64)

    def hide(self, instance: Any) -> None:
        """Omit one instance from lists."""
        self._hidden.add(instance.id)

    def fail_after(self, action: str, times: int) -> None:
        """Answer `action` a few more times, then refuse it."""
        self.refusals[action] = Refusal("InternalError", status=500, after=times)

    def image(self, name: str, *, owner: str = "amazon", made_at: str = "2026-01-01") -> str:
        """Register an image, and return its id."""
        account = {"amazon": "137112412989", "self": ACCOUNT}.get(owner, owner)
        image = self.backend.register_image(name=name, description="")
        image.owner_id, image.creation_date = account, datetime.fromisoformat(f"{made_at}T00:00Z")
        image.owner_alias = owner if owner == "amazon" else None
        image.state, image.root_device_name = "available", "/dev/sda1"
        return str(image.id)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer one request."""
        size = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(size)
        environ["wsgi.input"] = BytesIO(body)
        given = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = given.get("Action", "")
        with self._lock:
            self.calls.append(action)
            refusal = self.refusals.get(action) or self.refusals.get("*")
            if refusal is not None and refusal.after > 0:
                refusal.after -= 1
            elif refusal is not None and refusal.times > 0:
                refusal.times -= 1
                return _refuse(start_response, refusal, garbled=self.garbled)
            if action in _CHANGES and self.dropped > 0:
                self.dropped -= 1
                return _hang_up(start_response)
            answer = self._answer(action, given, environ)
            if isinstance(answer, Refusal):
                return _refuse(start_response, answer)
            if action in _CHANGES and self.lost > 0:
                self.lost -= 1
                return _hang_up(start_response)
        status, headers, data = answer
        start_response(status, headers)
        return [data]

    def _answer(self, action: str, given: dict[str, str], environ: dict[str, Any]) -> Any:
        match action:
            case "RunInstances":
                return self._run(given, environ)
            case "DescribeInstances":
                return self._list(given, environ)
            case "TerminateInstances":
                return self._end(environ)
            case "ModifyInstanceAttribute":
                # moto takes decoded user data for encoded data.
                data = given.get("UserData.Value", "")
                again = {"UserData.Value": base64.b64encode(data.encode()).decode()}
                return self._ask(_with(environ, given | (again if data else {})))
            case "StartInstances":
                found = self._ask(environ)
                for each in self.instances():
                    if any(text == each.id for text in given.values()):
                        _enter(each, "pending", 0)
                return found
            case _:
                return self._ask(environ)

    def _run(self, given: dict[str, str], environ: dict[str, Any]) -> Any:
        token = given.get("ClientToken", "")
        said = sorted((key, text) for key, text in given.items() if key != "ClientToken")
        digest = hashlib.sha256(repr(said).encode()).hexdigest()
        before = self._tokens.get(token)
        if before is not None and before[0] != digest:
            return Refusal(
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in"
                " previous request(s).",
            )
        if before is not None and before[1] is not None:
            mine = [each for each in self.instances() if each.client_token == token]
            if all(each.state == "terminated" for each in mine):
                return Refusal(
                    "IdempotentInstanceTerminated",
                    "The client token you have provided is associated with a terminated instance.",
                )
            return before[1]
        if given["ImageId"] not in self.backend.amis:
            return Refusal(
                "InvalidAMIID.NotFound", f"The image id '[{given['ImageId']}]' does not exist"
            )
        self._tokens[token] = digest, None
        zone, wanted = given["Placement.AvailabilityZone"], int(given["MinCount"])
        if self.stock.get(zone, wanted) < wanted:
            return Refusal(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {given['InstanceType']} capacity in the"
                f" Availability Zone you requested ({zone}).",
                status=500,
            )
        known = {each.id for each in self.backend.all_instances()}
        # A disk without a size is as large as its image; moto needs the size.
        sized = {"BlockDeviceMapping.1.Ebs.VolumeSize": "8", **given}
        answer = self._ask(_with(environ, sized))
        if not answer[0].startswith("200"):
            return answer
        if zone in self.stock:
            self.stock[zone] -= wanted
        for each in self.backend.all_instances():
            if each.id not in known:
                self._made[each.id] = self._now
                _enter(each, "pending", 0)
        self._tokens[token] = digest, answer
        self.requests.append(given)
        return answer

    def _list(self, given: dict[str, str], environ: dict[str, Any]) -> Any:
        hidden = [
            each
            for each in self.backend.all_instances()
            if each.id in self._hidden
            or each.id not in self._made
            or self._now - self._made[each.id] < self.lag
        ]
        away = {each.id: each for each in hidden}
        for reservation in self.backend.reservations.values():
            reservation.kept = reservation.instances
            reservation.instances = [one for one in reservation.instances if one.id not in away]
        try:
            page = min(int(given.get("MaxResults", self.page)), self.page)
            is_of_ids = any(name.startswith("InstanceId.") for name in given)
            paged = {} if is_of_ids else {"MaxResults": str(page)}
            return self._ask(_with(environ, given | paged))
        finally:
            for reservation in self.backend.reservations.values():
                reservation.instances = reservation.kept

    def _end(self, environ: dict[str, Any]) -> Any:
        before = {each.id: each.state for each in self.instances()}
        answer = self._ask(environ)
        for each in self.instances():
            if each.state == "terminated" and before[each.id] != "terminated":
                _enter(each, "shutting-down", 32)
                each.state_reason.message = "Client.UserInitiatedShutdown: User initiated shutdown"
        return answer

    def _ask(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        """Let moto answer."""
        said: list[Any] = []
        data = b"".join(
            self._app(environ, lambda status, headers, *_: said.extend((status, headers)))
        )
        return said[0], said[1], data


def parsed_user_data(instance: Any) -> bytes:
    """Return the user data of an instance as cloud-init reads it, compressed or not."""
    data = base64.b64decode(str(instance.user_data))
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def user_data(request: dict[str, str]) -> bytes:
    """Return the user data of a RunInstances."""
    return base64.b64decode(request["UserData"])


@contextmanager
def ec2_server() -> Iterator[Ec2World]:
    """Run the region in a thread of this process, with credentials for it in the environment."""
    from moto.backends import get_backend
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    world = Ec2World()
    world._app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, world, threaded=True, request_handler=MotoRequestHandler)
    world.endpoint = f"http://127.0.0.1:{server.server_port}"
    get_backend("iam")[ACCOUNT]["aws"].create_instance_profile(
        name=PROFILE, path="/", role_names=[], tags=[]
    )
    try:
        with credentials(), answering(server):
            yield world
    finally:
        for name in ("ec2", "iam"):
            get_backend(name).reset()


def connect_to(world: Ec2World) -> Callable[[str], Any]:
    """Return a function that makes the adapter's own client of a region, for this server."""
    import os

    from bastion.provider.aws.client import client

    def connect(region: str) -> Any:
        os.environ["AWS_ENDPOINT_URL_EC2"] = world.endpoint
        return client(region)

    return connect


def _with(environ: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    """Return a request with other parameters."""
    data = urlencode(given).encode()
    return environ | {"wsgi.input": BytesIO(data), "CONTENT_LENGTH": str(len(data))}


def _enter(instance: Any, name: str, code: int) -> None:
    instance._state.name, instance._state.code = name, code


def _refuse(start_response: Any, refusal: Refusal, *, garbled: bool = False) -> list[bytes]:
    reason = {400: "Bad Request", 403: "Forbidden", 500: "Internal Server Error"}
    start_response(
        f"{refusal.status} {reason.get(refusal.status, 'Error')}", [("Content-Type", "text/xml")]
    )
    if garbled:
        return [b"Service is away"]
    return [
        f"<Response><Errors><Error><Code>{refusal.code}</Code><Message>{refusal.message}</Message>"
        "</Error></Errors><RequestID>r</RequestID></Response>".encode()
    ]


def _hang_up(start_response: Any) -> list[bytes]:
    """Return the answer of a server in between: none came from EC2."""
    start_response("504 Gateway Timeout", [("Content-Type", "text/html")])
    return [b"<html>gateway timeout</html>"]
