"""moto as an S3 server on loopback, and credentials for any S3 server."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from threading import Lock
from typing import Any

from botocore.loaders import JSONFileLoader

from tests.rigs.limits import answering

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}

# Without this, each new boto3 session spends most of its time reading the same megabytes of JSON.
JSONFileLoader.load_file = staticmethod(cache(JSONFileLoader().load_file))  # type: ignore[method-assign]


@contextmanager
def moto_server() -> Iterator[str]:
    """
    Run a server in a thread of this process, and give its URL.

    Writes are serialized. Unmodified, moto checks the condition of a write and writes later, so two
    concurrent writers can both succeed, which S3 never allows.
    """
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = _one_write_at_a_time(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    try:
        with answering(server):
            yield f"http://127.0.0.1:{server.server_port}"
    finally:
        _backend().reset()  # its state is global to this process and would outlive the server


def _one_write_at_a_time(app: Any) -> Any:
    lock = Lock()

    def locked(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return app(environ, start_response)
        size = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = BytesIO(
            environ["wsgi.input"].read(size)
        )  # the rest may never arrive
        with lock:
            return app(environ, start_response)

    return locked


@contextmanager
def credentials() -> Iterator[None]:
    """Set credentials in the environment, and hide all others, within the `with` block."""
    before = dict(os.environ)
    os.environ.update(KEYS)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def free_port() -> int:
    """Return a free port of loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def ask_until_it_answers(endpoint_url: str, *, timeout_s: float = 180.0) -> None:
    """Create the bucket `bucket`, retrying until the server answers."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client("s3", endpoint_url=endpoint_url)
    give_up_at = time.monotonic() + timeout_s
    while True:
        try:
            client.create_bucket(Bucket="bucket")
            return
        except (BotoCoreError, ClientError):
            assert time.monotonic() < give_up_at, f"{endpoint_url} does not answer"
            time.sleep(0.3)


def make_bucket(bucket: str) -> None:
    """Create a bucket in the server's state, without a request."""
    _state().create_bucket(bucket, "us-east-1")


def put_empty(bucket: str, names: Iterable[str]) -> None:
    """Create empty objects without requests, which take 8 ms each."""
    for name in names:
        _state().put_object(bucket, name, b"")


def _state() -> Any:
    return _backend()["123456789012"]["aws"]


def _backend() -> Any:
    from moto.backends import get_backend

    return get_backend("s3")
