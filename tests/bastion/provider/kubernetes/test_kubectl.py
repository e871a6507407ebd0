"""The messages of kubectl, and what they mean for a pool."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from bastion.errors import ProviderError, ProviderRefusedError, ProviderUnavailableError
from bastion.provider.kubernetes import kubectl as kubectl_file
from bastion.provider.kubernetes.kubectl import ChangedError, Kubectl, TakenError, failure


class Saying(Kubectl):
    """A kubectl that prints this and fails."""

    def __init__(self, said: str) -> None:
        super().__init__({}, {})
        self._said = said

    def call(self, argv: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
        """See `Kubectl`."""
        return subprocess.CompletedProcess(argv, 1, "", self._said)


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        (
            "I1130 07:32:27.845702    9882 log.go:245] noise\nWarning: noise\n"
            "Error from server (InternalError): an error on the server\n",
            ProviderUnavailableError,
            "x: an error on the server",
        ),
        (
            "Unable to connect to the server: dial tcp: lookup none: no such host",
            ProviderUnavailableError,
            "x: Unable to connect to the server: dial tcp: lookup none: no such host",
        ),
        (
            "Unable to connect to the server: getting credentials: exec: executable"
            " gke-gcloud-auth-plugin not found",
            ProviderRefusedError,
            "x: Unable to connect to the server: getting credentials: exec: executable"
            " gke-gcloud-auth-plugin not found",
        ),
        (
            "The connection to the server localhost:8080 was refused - did you specify the right"
            " host or port?",
            ProviderRefusedError,
            "x: The connection to the server localhost:8080 was refused - did you specify the right"
            " host or port?",
        ),
        (
            'The Pod "a" is invalid: \n* spec.tolerations: Invalid value: "a"\n* spec.b: Required',
            ProviderRefusedError,
            'x: The Pod "a" is invalid: * spec.tolerations: Invalid value: "a" * spec.b: Required',
        ),
        (
            'Error from server (AlreadyExists): pods "a" already exists',
            TakenError,
            'x: pods "a" already exists',
        ),
        (
            'Error from server (Conflict): Operation cannot be fulfilled on resourcequotas "a"',
            ChangedError,
            'x: Operation cannot be fulfilled on resourcequotas "a"',
        ),
        (
            'Error from server: admission webhook "validate.kyverno.svc-fail" denied the request:\n'
            "resource Pod/ml/a was blocked due to the following policies",
            ProviderRefusedError,
            'x: admission webhook "validate.kyverno.svc-fail" denied the request: resource Pod/ml/a'
            " was blocked due to the following policies",
        ),
        (
            "Error from server ([denied by labels] you must provide labels: {team}): admission"
            ' webhook "validation.gatekeeper.sh" denied the request: [denied by labels] you must'
            " provide labels: {team}",
            ProviderRefusedError,
            'x: admission webhook "validation.gatekeeper.sh" denied the request: [denied by labels]'
            " you must provide labels: {team}",
        ),
        ("", ProviderUnavailableError, "x: kubectl printed nothing"),
    ],
)
def test_what_kubectl_says_is_understood(said: str, kind: type[ProviderError], told: str) -> None:
    """What is not understood is an unknown outcome, and never a success."""
    found = failure("x", said)
    assert (type(found), found.message) == (kind, told)
    with pytest.raises(kind):
        Saying(said).ask("get", "/x", about="x")


def test_a_kubectl_that_is_missing_or_hangs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host without it has a setting to fix; one that hangs is an unknown outcome."""
    with pytest.raises(ProviderRefusedError, match="kubectl is not installed here"):
        Kubectl({}, {"PATH": str(tmp_path)}).ask("get", "/x", about="x")
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\nexec 3>{alive}\nsleep 100 & wait\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setattr(kubectl_file, "CALL_S", 1.0)
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(ProviderUnavailableError, match="kubectl has not answered within"):
        Kubectl({}, {"PATH": f"{tmp_path}:{os.environ['PATH']}"}).ask("get", "/x", about="x")
    assert select.select([reader], [], [], 20)[0], "the program that logs in for it hangs on"
    os.close(reader)
