"""`bastion auth`: the cloud's own program logs in; if it is missing, the error names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.commands.here.auth import logins
from tests.launch.command_line import Run

GOOGLE = ("gcloud", "auth", "login", "--update-adc")


@pytest.mark.parametrize(
    ("root", "repo", "wanted"),
    [
        ("gs://b/x", "", [GOOGLE]),
        (
            "gs://b/x",
            "europe-docker.pkg.dev/acme/images",
            [GOOGLE, ("gcloud", "auth", "configure-docker", "europe-docker.pkg.dev", "--quiet")],
        ),
        ("s3://b/x", "123456789012.dkr.ecr.us-east-1.amazonaws.com", [("aws", "sso", "login")]),
        ("file:///tmp/x", "", []),
    ],
)
def test_each_cloud_has_a_program(root: str, repo: str, wanted: list[tuple[str, ...]]) -> None:
    """The bucket's login includes Google's registry; a folder needs no login."""
    assert logins(root, repo) == wanted


def test_its_exit_code_is_ours(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs as the user would run it; a missing one is named."""
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = run("auth", "--root=s3://b/x")
    assert (missing.code, missing.err.splitlines()) == (
        2,
        [
            "error: aws is not installed, and is needed to log in to the cloud",
            "hint: install it, or run this where it is installed: aws sso login",
        ],
    )
    program = tmp_path / "aws"
    program.write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/said"\nexit 7\n')
    program.chmod(0o755)
    assert run("auth", "--root=s3://b/x").code == 7
    assert (tmp_path / "said").read_text() == "sso login\n"
    assert run("auth", "--root=s3://b/x", "--print").out == "aws sso login\n"
    assert "is a folder" in run("auth", f"--root={tmp_path}").err


def test_a_root_of_no_known_kind_is_no_folder(run: Run) -> None:
    """A mistyped `gs://` is an error, and not treated as a folder."""
    ran = run("auth", "--root=gcs://bucket/x", "--print")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: store 'gcs://bucket/x': unknown, must be one of file:///")
