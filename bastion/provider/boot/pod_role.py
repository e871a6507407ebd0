"""
The role that EKS gives to the service account of a pod, as credentials for the bucket.

Part of the program that `bootstrap` describes, only for pods, and valid in Python 3.7.

Source: AWS SDKs and Tools Reference Guide, "Assume role with web identity" and "Container
credential provider".
"""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode
from urllib.request import urlopen

from bastion.provider.boot.bucket_call import ROLES, metadata, of_instance

if TYPE_CHECKING:
    from collections.abc import Sequence


def of_pod(region: str) -> Sequence[str]:
    """Return the key, secret and token of a service account; else those of the node's role."""
    env = os.environ
    path, role = env.get("AWS_WEB_IDENTITY_TOKEN_FILE"), env.get("AWS_ROLE_ARN")
    if path and role:
        asked = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": env.get("AWS_ROLE_SESSION_NAME") or "bastion",
            "WebIdentityToken": content(path),
        }
        url = env.get("AWS_ENDPOINT_URL_STS") or "https://sts.%s.amazonaws.com" % region
        with urlopen(url, urlencode(asked).encode(), timeout=60) as answer:
            said = answer.read().decode()
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
        return [re.findall("<%s>([^<]+)" % name, said)[0] for name in names]
    place = env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if place:
        file = env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        token = content(file) if file else env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
        given = json.loads(metadata(place, {"Authorization": token} if token else {}))
        return [given[name] for name in ("AccessKeyId", "SecretAccessKey", "Token")]
    return of_instance(region)


def content(path: str) -> str:
    """Return the content of a file; a token is rewritten before it expires."""
    with open(path) as file:
        return file.read().strip()


ROLES.append(of_pod)
