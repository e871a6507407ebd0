"""What an instance reads about itself: EC2's metadata service, version 2, on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.rigs.limits import answering

_TOKEN = "a-session-token"


@dataclass
class Metadata:
    """The answers to one instance; `endpoint` is for AWS_EC2_METADATA_SERVICE_ENDPOINT."""

    endpoint: str = ""
    paths: dict[str, str] = field(default_factory=dict)
    """Path below `/latest/` -> text; a missing path gets 404."""

    def notice(self, at: str) -> None:
        """Announce that the spot instance will be interrupted."""
        self.paths["meta-data/spot/instance-action"] = json.dumps(
            {"action": "terminate", "time": at}
        )

    def rebalance(self, at: str) -> None:
        """Announce that the spot instance is at risk."""
        self.paths["meta-data/events/recommendations/rebalance"] = json.dumps({"noticeTime": at})


@contextmanager
def metadata_of(instance: Any) -> Iterator[Metadata]:
    """Run the service of `instance`, as moto keeps it, in a thread."""
    zone = instance.placement.zone
    metadata = Metadata(
        paths={
            "meta-data/ami-launch-index": str(instance.ami_launch_index),
            "meta-data/instance-id": instance.id,
            "meta-data/instance-type": instance.instance_type,
            "meta-data/instance-life-cycle": instance.lifecycle or "on-demand",
            "meta-data/placement/availability-zone": zone,
            "meta-data/placement/region": zone[:-1],
        }
    )

    class Answering(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            if self.path == "/latest/api/token" and self.headers.get(
                "X-aws-ec2-metadata-token-ttl-seconds"
            ):
                self._say(200, _TOKEN)
            else:
                self._say(400, "")

        def do_GET(self) -> None:
            if self.headers.get("X-aws-ec2-metadata-token") != _TOKEN:
                self._say(401, "")
                return
            text = metadata.paths.get(self.path.removeprefix("/latest/"))
            self._say(404 if text is None else 200, text or "")

        def _say(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    metadata.endpoint = f"http://127.0.0.1:{server.server_port}"
    with answering(server):
        yield metadata
