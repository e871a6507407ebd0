"""The distance of a store follows from its URL and the environment."""

from __future__ import annotations

import pytest

from bastion.agent.settings import FOLDER, GCS, S3, tempo_of
from bastion.agent.settings import NEAR as NEAR_TEMPO
from bastion.service.config.settings import CLOUD, LOCAL, NEAR, pace_of
from bastion.store.reach import Reach, reach_of


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide an empty environment."""
    for name in ("STORAGE_EMULATOR_HOST", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "reach"),
    [
        ("file:///srv/bastion", Reach.FOLDER),
        ("memory:", Reach.FOLDER),
        ("gs://bucket/b", Reach.CLOUD),
        ("s3://bucket/b", Reach.CLOUD),
        ("s3://bucket/b?endpoint_url=https://minio.example.org", Reach.CLOUD),
        ("s3://bucket/b?endpoint_url=https://127.0.0.1.example.org", Reach.CLOUD),
        ("s3://bucket/b?endpoint_url=http://127.0.0.1:9000&region_name=x", Reach.LOOPBACK),
        ("s3://bucket/b?endpoint_url=http://localhost:9000", Reach.LOOPBACK),
        ("s3://bucket/b?endpoint_url=http://[::1]:9000", Reach.LOOPBACK),
        ("nonsense", Reach.CLOUD),
    ],
)
def test_a_url_says_how_far(url: str, reach: Reach) -> None:
    """It is a folder, a server on this machine, or a cloud."""
    assert reach_of(url) is reach


@pytest.mark.parametrize(
    ("url", "name", "endpoint", "reach"),
    [
        ("gs://bucket", "STORAGE_EMULATOR_HOST", "localhost:4443", Reach.LOOPBACK),
        ("gs://bucket", "STORAGE_EMULATOR_HOST", "http://emulator:4443", Reach.CLOUD),
        ("s3://bucket", "AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000", Reach.LOOPBACK),
        ("s3://bucket", "AWS_ENDPOINT_URL", "http://127.0.0.1:9000", Reach.LOOPBACK),
        (
            "s3://bucket?endpoint_url=http://far:1",
            "AWS_ENDPOINT_URL",
            "http://[::1]:1",
            Reach.CLOUD,
        ),
        ("gs://bucket", "AWS_ENDPOINT_URL", "http://127.0.0.1:9000", Reach.CLOUD),
    ],
)
def test_the_environment_says_where_a_bucket_is(
    monkeypatch: pytest.MonkeyPatch, url: str, name: str, endpoint: str, reach: Reach
) -> None:
    """The clients' environment counts, unless the URL says otherwise."""
    monkeypatch.setenv(name, endpoint)
    assert reach_of(url) is reach


def test_paces_follow_from_how_far_the_store_is() -> None:
    """Bastion and agent poll often if reads are free, and least at S3."""
    near = "s3://bucket?endpoint_url=http://127.0.0.1:9000"
    assert [pace_of(url) for url in ("file:///b", near, "gs://b")] == [LOCAL, NEAR, CLOUD]
    tempos = [tempo_of(url) for url in ("file:///b", near, "gs://b", "s3://b")]
    assert tempos == [FOLDER, NEAR_TEMPO, GCS, S3]
