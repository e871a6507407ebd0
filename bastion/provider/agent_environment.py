"""
The environment of an agent that the bastion starts on its own machine.

An agent does not get all of the bastion's variables, because a job on the same machine could then
take the bastion's identity. It gets what a program needs to run and to reach the bucket, the
settings of agents, and its own credentials: agents get a variable with the prefix `AGENT_` without
that prefix. If none of these variables is a credential, agents use the bastion's own credentials.
"""

from __future__ import annotations

from collections.abc import Mapping

_PASSED = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "SHELL",
        "PYTHONPATH",
        "PYTHONDONTWRITEBYTECODE",
        "LD_LIBRARY_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "STORAGE_EMULATOR_HOST",
        "DOCKER_HOST",
    }
)
_PASSED_PREFIXES = (
    "LC_",
    "XDG_",
    "UV_",
    "PIP_",
    "BASTION_GIT_",
    "BASTION_SECRET",
    "BASTION_DEVICE_",
    "NVIDIA_",
)
_PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_CLOUD_PREFIXES = ("AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "GCE_METADATA_")
_CREDENTIALS = frozenset(
    {
        "GOOGLE_APPLICATION_CREDENTIALS",
        "CLOUDSDK_CONFIG",
        "AWS_ACCESS_KEY_ID",
        "AWS_PROFILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CONFIG_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AZURE_CLIENT_ID",
        "AZURE_CONFIG_DIR",
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
    }
)
_SECRETS = _CREDENTIALS | {
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_PASSWORD",
    "AZURE_USERNAME",
}
_OWN = "AGENT_"


def agent_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an agent, derived from those of its bastion."""
    passed = {name: text for name, text in environ.items() if _is_passed(name)}
    if has_own_credentials(environ):
        passed = {name: text for name, text in passed.items() if name not in _SECRETS}
    own = {name.removeprefix(_OWN): text for name, text in environ.items() if name.startswith(_OWN)}
    return passed | own


def has_own_credentials(environ: Mapping[str, str]) -> bool:
    """Whether agents get their own credentials."""
    return any(f"{_OWN}{name}" in environ for name in _CREDENTIALS)


def _is_passed(name: str) -> bool:
    return (
        name in _PASSED
        or name.lower() in _PROXIES
        or name.startswith((*_PASSED_PREFIXES, *_CLOUD_PREFIXES))
    )
