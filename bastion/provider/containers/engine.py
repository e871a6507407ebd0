"""The client of an engine, which is docker's own, and what the failures of its calls mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bastion.errors import ProviderRefusedError, ProviderUnavailableError

CALL_S = 60
_REFUSED = (
    "could not select device driver",
    "unresolvable CDI devices",
    "OCI runtime create failed",
    "invalid mount config",
    "not found in $PATH",
    "network ",
)
"""Phrases of engines that report some wrong settings as server errors."""


@contextmanager
def asked(engine: Any, what: str) -> Iterator[Any]:
    """
    Convert failures of calls to `engine` within the block into provider errors.

    Raises:
        ProviderRefusedError: A setting is wrong.
        ProviderUnavailableError: It did not answer, or the outcome is unknown.
    """
    from docker.errors import APIError, DockerException
    from requests.exceptions import RequestException

    try:
        yield engine
    except APIError as error:
        told = str(error.explanation or error)[:500]
        status = error.status_code or 500
        is_wrong = any(text in told for text in _REFUSED) or status in (400, 401, 403, 404)
        if is_wrong and "No such container" not in told:
            raise ProviderRefusedError(f"{what}: {told}") from error
        raise ProviderUnavailableError(f"{what}: {told}") from error
    except (DockerException, RequestException, OSError, KeyError, ValueError) as error:
        raise ProviderUnavailableError(
            f"{what}: the engine did not answer: {error!r}"[:500]
        ) from error


def client(host: str) -> Any:
    """
    Return a client of the engine at `host`; empty: the one that docker's own variables name.

    Raises:
        ProviderError: docker-py is not installed, or there is no engine.
    """
    try:
        import docker
        from docker.utils import kwargs_from_env
    except ImportError as error:
        raise ProviderRefusedError(
            f"a pool of provider docker needs docker-py: {error}",
            hint="run: pip install 'bastion-orchestrator[docker]'",
        ) from error
    given = {"base_url": host} if host else kwargs_from_env()
    try:
        return docker.APIClient(version="auto", timeout=CALL_S, use_ssh_client=True, **given)
    except (docker.errors.DockerException, OSError, ValueError) as error:
        place = host or given.get("base_url") or "its usual place"
        raise ProviderUnavailableError(f"no docker engine at {place}: {error}"[:500]) from error
