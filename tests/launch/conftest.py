"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.cli import main
from tests.launch.bucket import Bucket
from tests.launch.command_line import Ran, Run


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    """Provide a bucket with a quota file and one running job."""
    return Bucket(tmp_path / "bucket")


@pytest.fixture
def run(
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Run:
    """Run a command line as ada, on the bucket, without the settings of the tests' user."""
    for name in ("NO_COLOR", "BASTION_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BASTION_ROOT", bucket.url)
    monkeypatch.setenv("BASTION_USER", "ada")

    def run_line(*words: str) -> Ran:
        try:
            code = main(list(words))
        except SystemExit as ended:  # argparse's own --help
            code = int(str(ended.code or 0))
        out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return run_line
