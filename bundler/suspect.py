"""
File names that often hold secrets.

They are only a warning, since the user alone knows the contents. Only names are checked, so that a
large tree costs nothing.
"""

from __future__ import annotations

import re

_NAMES = re.compile(
    r"""(?:
      \.env(?:\.(?!example|sample|template|dist)[\w.-]+)?
    | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?
    | .+\.(?:pem|p12|pfx|jks|keystore|kdbx|ppk)
    | (?:.+[_-])?private[_-]?key(?:\..+)?
    | .*(?:credentials?|service[_-]?account|client[_-]secrets?)[\w.-]*\.json
    | credentials | \.netrc | \.pgpass | \.pypirc | \.npmrc | \.htpasswd | \.git-credentials
    | \.dockerconfigjson | kubeconfig | secrets?\.(?:json|ya?ml|toml|ini)
    )\Z""",
    re.VERBOSE | re.IGNORECASE,
)


def looks_secret(name: str) -> bool:
    """Whether a file of this name (no folders) often holds a secret."""
    return _NAMES.match(name) is not None
