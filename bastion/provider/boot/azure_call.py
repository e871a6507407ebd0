"""
Gets or puts one object of a container of Azure, as the identity of a machine or of a pod.

Part of the program that `bootstrap` describes, only for roots in Azure, and valid in Python 3.7.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode
from urllib.request import Request, urlopen

from bastion.provider.boot.bucket_call import REQUESTS, metadata

if TYPE_CHECKING:
    from urllib.parse import SplitResult


def of_azure(parts: SplitResult, name: str, method: str, data: bytes | None) -> Request:
    """Return a request to Azure, with a shared access signature or the token of an identity."""
    env, asked = os.environ, dict(parse_qsl(parts.query))
    server = asked.get("endpoint_url") or "https://%s.blob.core.windows.net" % parts.netloc
    # As in `bastion.store.azure.names`.
    name = "".join("~%02X" % each if each > 125 else chr(each) for each in name.encode())
    url = "%s/%s" % (server.rstrip("/"), quote(name, safe="/~"))
    headers = {"x-ms-version": "2021-12-02"}
    if data is not None:
        headers.update({"x-ms-blob-type": "BlockBlob", "If-None-Match": "*"})
        headers["Content-Type"] = "application/json"
    shared = env.get("AZURE_STORAGE_SAS_TOKEN", "").lstrip("?")
    if shared:
        return Request(url + "?" + shared, headers=headers, method=method)
    headers["Authorization"] = "Bearer " + token(env.get("AZURE_CLIENT_ID", ""))
    return Request(url, headers=headers, method=method)


def token(client: str) -> str:
    """
    Return a token for a workload identity, else for a managed identity.

    Source: Microsoft Entra, "How to use managed identities on an Azure VM to acquire an access
    token", and "Workload identity federation".
    """
    env = os.environ
    file = env.get("AZURE_FEDERATED_TOKEN_FILE")
    if file:
        with open(file) as said:
            proof = said.read().strip()
        form = {
            "client_id": client,
            "grant_type": "client_credentials",
            "scope": "https://storage.azure.com/.default",
            "client_assertion": proof,
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        }
        login = env.get("AZURE_AUTHORITY_HOST") or "https://login.microsoftonline.com"
        place = "%s/%s/oauth2/v2.0/token" % (login.rstrip("/"), env.get("AZURE_TENANT_ID", ""))
        with urlopen(place, urlencode(form).encode(), timeout=60) as answer:
            given = answer.read().decode()
    else:
        wanted = {"api-version": "2018-02-01", "resource": "https://storage.azure.com/"}
        if client:
            wanted["client_id"] = client
        host = env.get("AZURE_POD_IDENTITY_AUTHORITY_HOST") or "http://169.254.169.254"
        place = "%s/metadata/identity/oauth2/token?" % host.rstrip("/")
        given = metadata(place + urlencode(wanted), {"Metadata": "true"})
    return str(json.loads(given)["access_token"])


REQUESTS["az"] = of_azure
