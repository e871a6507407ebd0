"""One URL, one store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bastion.errors import SpecError, StoreError, StoreRefusedError
from bastion.store import open_store
from bastion.store.azure.blobs import AzureStore
from bastion.store.folder.local import LocalStore
from bastion.store.gcs import GcsStore
from bastion.store.memory import MemoryStore
from bastion.store.open import address_of, checked
from bastion.store.s3 import S3Store
from tests.servers.canned import canned
from tests.servers.gcs import GcsServer
from tests.servers.s3 import credentials, make_bucket, moto_server


def test_a_folder(tmp_path: Path) -> None:
    """`file://` and an absolute path is a folder, quoted as URLs are."""
    store = open_store(f"file://{tmp_path}/with%20space", makes_root=True)
    assert isinstance(store, LocalStore)
    store.create("a", b"1")
    assert (tmp_path / "with space" / "a").read_bytes() == b"1"


def test_memory_is_new_each_time() -> None:
    """`memory:` is a separate empty store."""
    store = open_store("memory:")
    assert isinstance(store, MemoryStore)
    store.create("a", b"1")
    assert open_store("memory:").list("") == ()


def test_a_bucket_of_google(monkeypatch: pytest.MonkeyPatch) -> None:
    """`gs://` is a bucket and a folder in it; STORAGE_EMULATOR_HOST can set the server."""
    with GcsServer("b") as server:
        for host in (server.url, server.url.removeprefix("http://")):
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", host)
            store = open_store("gs://b/some/root/")
            assert isinstance(store, GcsStore)
            store.delete("a")
            store.create("a", b"1")
            assert list(server.api.buckets["b"].blobs) == ["some/root/a"]
        open_store("gs://b").create("b", b"2")
        assert sorted(server.api.buckets["b"].blobs) == ["b", "some/root/a"]


def test_a_bucket_of_amazon() -> None:
    """`s3://` is a bucket and a folder in it, on any server that `endpoint_url` names."""
    with moto_server() as url, credentials():
        make_bucket("bucket")
        store = open_store(f"s3://bucket/root?endpoint_url={url}&region_name=eu-west-1")
        assert isinstance(store, S3Store)
        store.create("a", b"1")
        whole = open_store(f"s3://bucket?endpoint_url={url}")
        assert [entry.key for entry in whole.list("")] == ["root/a"]


def test_a_container_of_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    """`az://` is a storage account, a container in it, and a folder in that."""
    heard: list[bytes] = []
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    with canned(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n", heard=heard) as endpoint:
        store = open_store(f"az://lab/box/some/root/?endpoint_url={endpoint}/lab")
        assert isinstance(store, AzureStore)
        with pytest.raises(StoreError):
            store.read("a")
    assert heard[0].startswith(b"GET /lab/box/some/root/a HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://x", "must be one of file:///folder, gs://"),
        ("", "unknown"),
        ("/srv/bastion", "unknown"),
        ("file:relative", "absolute path"),
        ("file://host/path", "absolute path"),
        ("gs://", "must name a bucket"),
        ("gs:/b/a", "must name a bucket"),
        ("gs://[b/a", "must be one of file:///folder, gs://"),
        ("gs://b/a//b", "plain folder"),
        ("gs://b/a?x=1", "no settings"),
        ("gs://b/" + "/".join(["p" * 60] * 3), "at most 123 bytes"),
        ("s3://b?endpoint_url=minio:9000", "endpoint_url must begin with http"),
        ("s3://b?color=red", "unknown setting 'color'"),
        ("az://lab", "must be az://ACCOUNT/CONTAINER/FOLDER"),
        ("az://lab.x/box/root", "must be az://ACCOUNT/CONTAINER/FOLDER"),
        ("az://lab/Box", "must be az://ACCOUNT/CONTAINER/FOLDER"),
        ("az://lab/box//x", "plain folder"),
        ("az://lab/box?region_name=x", "unknown setting 'region_name'"),
        ("az://lab/box?endpoint_url=lab", "endpoint_url must begin with http"),
    ],
)
def test_what_is_no_store_is_told(url: str, said: str) -> None:
    """A malformed URL is a SpecError that shows it and what is allowed."""
    with pytest.raises(SpecError, match=said.replace("?", r"\?")) as caught:
        open_store(url)
    assert repr(url) in str(caught.value)
    with pytest.raises(SpecError) as unopened:
        checked(url)
    assert str(unopened.value) == str(caught.value)


def test_a_bare_path_is_helped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a path without a scheme, the error has the intended URL."""
    with pytest.raises(SpecError) as caught:
        open_store("/srv/bastion")
    assert caught.value.hint == "write file:///srv/bastion"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bucket").mkdir()
    with pytest.raises(SpecError) as relative:
        open_store("bucket")
    assert relative.value.hint == f"write {(tmp_path / 'bucket').as_uri()}"


def test_no_process_loads_a_cloud_that_it_does_not_use() -> None:
    """Opening a folder imports no cloud library, and a Google bucket none of Amazon's."""
    script = (
        "import sys, bastion.store.gcs, bastion.store.s3, bastion.store.azure.blobs\n"
        "from bastion.store import open_store\n"
        "open_store('file:///tmp/no-such-folder')\n"
        "libraries = ('boto3', 'google.auth', 'azure', 'urllib3', 'requests')\n"
        "print([name for name in libraries if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("gs://b/x", "google", "gcp"),
        ("s3://b/x", "botocore", "aws"),
        ("az://lab/box/x", "azure", "azure"),
    ],
)
def test_a_cloud_whose_library_is_not_installed_is_told_with_what_to_install(
    url: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain install has none of them: that is no bug in Bastion."""
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setattr("sys.meta_path", [_Without(module), *sys.meta_path])
    for name in list(sys.modules):
        if name.split(".")[0] == module or name in ("bastion.store.s3", "bastion.store.gcs"):
            monkeypatch.delitem(sys.modules, name)
    with pytest.raises(StoreRefusedError) as caught:
        open_store(url)
    assert str(caught.value) == (
        f"store '{url}': Python has no module {module} here, which it needs"
    )
    assert caught.value.hint == (
        f"pip install 'bastion-orchestrator[{extra}]'; in a clone: pip install '.[{extra}]'"
    )


class _Without:
    """An import system in which one package is not installed."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name.split(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_bucket_has_one_address_whichever_way_it_is_named(tmp_path: Path) -> None:
    """A trailing slash, a link and a region do not change the bucket; another server does."""
    (tmp_path / "bucket").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "bucket")
    real, link = (address_of(f"file://{tmp_path}/{name}") for name in ("bucket", "link/"))
    assert real == link == f"file://{tmp_path}/bucket"
    assert address_of("gs://b/x/") == address_of("gs://b/x") == "gs://b/x"
    here = address_of("s3://b/x?endpoint_url=http://h:9000&region_name=r")
    assert here == address_of("s3://b/x/?endpoint_url=http://h:9000/")
    assert len({here, address_of("s3://b/x"), address_of("s3://b/y")}) == 3
