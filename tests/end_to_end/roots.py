"""
Roots to test on: a folder, a Google bucket, buckets of S3 servers.

They differ only in the URL and the environment. Tests read the bucket through the store, as every
program does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bastion.errors import NotFoundError
from bastion.records.coding.codec import decode
from bastion.records.keys import layout
from bastion.records.requests.result import Result
from bastion.records.root import Root, decode_root
from bastion.store import ObjectStore
from bastion.store.folder.local import LocalStore
from bastion.store.gcs import GcsStore
from bastion.store.open import open_store
from tests.servers.azurite import ACCOUNT, KEY, azure_store, azurite_server, make_container
from tests.servers.ceph import ceph_server
from tests.servers.gcs import GcsServer
from tests.servers.localstack import localstack_server
from tests.servers.s3 import KEYS, credentials, make_bucket, moto_server


@dataclass(frozen=True, kw_only=True)
class Place:
    """A root, and what a program needs to reach it."""

    url: str
    env: Mapping[str, str] = field(default_factory=dict)
    store: ObjectStore

    def read(self, key: str) -> bytes | None:
        """Return the object at `key`, or None."""
        try:
            found = self.store.read(key)
        except NotFoundError:
            return None
        assert found is not None
        return found.data

    def keys(self, prefix: str) -> tuple[str, ...]:
        """Return everything below `prefix`."""
        keys: list[str] = []
        while page := self.store.list(prefix, start_after=keys[-1] if keys else ""):
            keys += [entry.key for entry in page]
        return tuple(keys)

    def root(self) -> Root | None:
        """Return root, once it exists."""
        data = self.read(layout.ROOT)
        return None if data is None else decode_root(data)

    def result(self, project: str, job: str) -> Result | None:
        """Return the final record of a job, once it exists."""
        key = layout.result(project, job)
        data = self.read(key)
        return None if data is None else decode(Result, data, key=key)

    def log(self, project: str, job: str, attempt: int) -> bytes:
        """Return the output of a job's first process, from its segments; a gap is a failure."""
        data = b""
        for key in self.keys(layout.log(project, job, attempt, replica=0, host=0, process=0)):
            assert int(Path(key).stem) == len(data), f"{key} is not at {len(data)}"
            data += self.read(key) or b""
        return data


@contextmanager
def folder_root(folder: Path) -> Iterator[Place]:
    """Provide a folder, as in the tutorial."""
    yield Place(url=f"file://{folder}/root", store=LocalStore(folder / "root", makes_root=True))


@contextmanager
def gcs_root(folder: Path) -> Iterator[Place]:
    """Provide Google Cloud Storage, as the test server imitates it."""
    with GcsServer("bucket") as server:
        yield Place(
            url=f"gs://bucket/{folder.name}",
            env={"STORAGE_EMULATOR_HOST": server.url},
            store=GcsStore("bucket", folder.name, credentials=None, endpoint=server.url),
        )


@contextmanager
def s3_root(folder: Path) -> Iterator[Place]:
    """Provide Amazon S3, as moto imitates it."""
    with moto_server() as url, credentials():
        make_bucket("bucket")
        yield _on_s3(folder, url)


@contextmanager
def localstack_root(folder: Path) -> Iterator[Place]:
    """Provide Amazon S3, as localstack imitates it, with correct conditional writes."""
    with localstack_server(folder) as url, credentials():
        yield _on_s3(folder, url)


@contextmanager
def ceph_root(folder: Path) -> Iterator[Place]:
    """Provide Ceph's object gateway, the most widespread S3 server besides Amazon's."""
    with ceph_server(folder) as url, credentials():
        yield _on_s3(folder, url, "&etags=bare")


@contextmanager
def azure_root(folder: Path) -> Iterator[Place]:
    """Provide Azure Blob Storage, as Azurite imitates it."""
    with azurite_server(folder) as endpoint:
        make_container(endpoint, "bucket")
        yield Place(
            url=f"az://{ACCOUNT}/bucket/{folder.name}?endpoint_url={endpoint}",
            env={"AZURE_STORAGE_KEY": KEY},
            store=azure_store(endpoint, "bucket", folder.name),
        )


def _on_s3(folder: Path, server: str, settings: str = "") -> Place:
    url = f"s3://bucket/{folder.name}?endpoint_url={server}{settings}"
    return Place(url=url, env=KEYS, store=open_store(url))


ROOTS: Mapping[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "file": folder_root,
    "gs": gcs_root,
    "s3": s3_root,
    "localstack": localstack_root,
    "ceph": ceph_root,
    "az": azure_root,
}
"""Roots by name; each needs a folder with a unique name."""
