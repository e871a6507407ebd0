"""
The secret managers of the clouds, queried with the machine's own identity.

Google's and Azure's are queried over HTTP, like the bucket; Amazon's through boto3. Their libraries
are imported at the first query. No error here contains a value: only a successful answer does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bastion.agent.setup.code_setup import SetUpError

if TYPE_CHECKING:
    import urllib3
    from azure.core.credentials import TokenCredential

_ANSWER_S = 20.0
"""Longest silence of a secret manager."""

_GOOGLE = "https://secretmanager.googleapis.com"
_GOOGLE_OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER"
"""Source: gcloud, `gcloud topic configurations`, property `api_endpoint_overrides`."""
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""Source: Secret Manager v1, `projects.secrets.versions.access`."""


_AZURE = "vault.azure.net"
_AZURE_API = "7.4"
"""Source: Azure Key Vault REST API, "Get Secret"."""


class BusyError(Exception):
    """A retry may succeed; the message contains no value."""


def of_google(name: str, environ: Mapping[str, str]) -> bytes:
    """
    Read `projects/P/secrets/S` from Secret Manager, the latest version unless `name` has one.

    Args:
        name: The name of the secret, or of one version of it.
        environ: The agent's variables, which may name another endpoint.

    Raises:
        SetUpError: It refuses.
        BusyError: It did not answer.

    Source: Secret Manager v1, `secretmanager.v1.json`, `projects.secrets.versions.access`.
    """
    import urllib3

    endpoint = environ.get(_GOOGLE_OVERRIDE, _GOOGLE).rstrip("/")
    version = name if "/versions/" in name else f"{name}/versions/latest"
    http = urllib3.PoolManager(retries=False, timeout=_ANSWER_S)
    headers = {} if endpoint.startswith("http:") else _google_token(http)
    answer = _answer(http, f"{endpoint}/v1/{version}:access", headers, "Secret Manager")
    if answer.status != 200:
        raise SetUpError(f"Secret Manager refuses {version}: {_google_error(answer.data)}")
    data: str = json.loads(answer.data)["payload"].get("data", "")
    return base64.b64decode(data, validate=True)


def _answer(
    http: urllib3.PoolManager, url: str, headers: Mapping[str, str], service: str
) -> urllib3.BaseHTTPResponse:
    """
    Return the answer of a secret manager to one query.

    Raises:
        BusyError: There is none, or it asks for another try.
    """
    import urllib3

    try:
        answer = http.request("GET", url, headers=headers, redirect=False)
    except urllib3.exceptions.HTTPError as error:
        raise BusyError(f"{service} did not answer: {type(error).__name__}") from None
    if answer.status == 429 or answer.status >= 500:
        raise BusyError(f"{service} answered {answer.status}")
    return answer


def _google_token(http: urllib3.PoolManager) -> dict[str, str]:
    import google.auth
    import google.auth.exceptions
    import google.auth.transport.urllib3

    headers: dict[str, str] = {}
    try:
        found, _ = google.auth.default(scopes=[_GOOGLE_SCOPE])
        transport = google.auth.transport.urllib3.Request(http)
        found.before_request(transport, "GET", _GOOGLE, headers)
    except google.auth.exceptions.TransportError as error:
        raise BusyError(f"Google did not answer with a token: {type(error).__name__}") from None
    except google.auth.exceptions.GoogleAuthError as error:
        raise SetUpError(
            f"Google gives this machine no token: {error}",
            hint="give the machine a service account that may access the secret",
        ) from None
    return headers


def _google_error(body: bytes) -> str:
    try:
        error = json.loads(body)["error"]
        return f"{error['code']} {error['message']}"
    except (ValueError, KeyError, TypeError):
        return "an answer that is not Google's"


def of_amazon(name: str) -> bytes:
    """
    Read a secret from Secrets Manager by its name or ARN, text or bytes.

    Raises:
        SetUpError: It refuses, or this machine has no credentials or region.
        BusyError: It did not answer.
    """
    from boto3.session import Session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    # An ARN names its region: arn:partition:secretsmanager:region:account:secret:name.
    region = name.split(":")[3] if name.startswith("arn:") and name.count(":") >= 6 else None
    once = Config(connect_timeout=5, read_timeout=_ANSWER_S, retries={"total_max_attempts": 1})
    try:
        client = Session().client("secretsmanager", region_name=region, config=once)
        found = client.get_secret_value(SecretId=name)
    except ClientError as error:
        fault = error.response["Error"]
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status >= 500 or "Throttling" in fault["Code"]:
            raise BusyError(f"Secrets Manager answered {fault['Code']}") from None
        raise SetUpError(f"Secrets Manager refuses: {fault['Code']}: {fault['Message']}") from None
    except HTTPClientError as error:
        raise BusyError(f"Secrets Manager did not answer: {type(error).__name__}") from None
    except BotoCoreError as error:
        raise SetUpError(f"Secrets Manager cannot be queried: {error}") from None
    text: str | None = found.get("SecretString")
    data: bytes = found["SecretBinary"] if text is None else text.encode()
    return data


def of_azure(name: str, *, credential: TokenCredential | None = None, endpoint: str = "") -> bytes:
    """
    Read `VAULT/SECRET` from a Key Vault, the current version unless `name` has one.

    Args:
        name: The vault, the secret, and optionally the version. A vault with a dot is a host name.
        credential: Gives tokens; by default the machine's identity.
        endpoint: URL of the vault, if it is not the one that its name says.

    Raises:
        SetUpError: It refuses, or this machine has no identity.
        BusyError: It did not answer.

    Source: Azure Key Vault REST API, "Get Secret".
    """
    import urllib3

    vault, _, secret = name.partition("/")
    host = vault if "." in vault else f"{vault}.{_AZURE}"
    scope = f"https://{host.partition('.')[2]}/.default"
    headers = {"Authorization": f"Bearer {_azure_token(credential, scope)}"}
    url = f"{endpoint or f'https://{host}'}/secrets/{secret}?api-version={_AZURE_API}"
    http = urllib3.PoolManager(retries=False, timeout=_ANSWER_S)
    answer = _answer(http, url, headers, "Key Vault")
    if answer.status != 200:
        raise SetUpError(f"Key Vault refuses {name}: {_azure_error(answer.data)}")
    value: str = json.loads(answer.data)["value"]
    return value.encode()


def _azure_token(credential: TokenCredential | None, scope: str) -> str:
    from azure.core.exceptions import AzureError

    from bastion.store.azure.caller import default_credential

    try:
        return (credential or default_credential()).get_token(scope).token
    except AzureError as error:
        raise SetUpError(
            f"Azure gives this machine no token: {str(error).strip().splitlines()[0]}",
            hint="give the machine a managed identity with the role Key Vault Secrets User",
        ) from None


def _azure_error(body: bytes) -> str:
    try:
        error = json.loads(body)["error"]
        return f"{error['code']}: {error['message']}"
    except (ValueError, KeyError, TypeError):
        return "an answer that is not Azure's"
