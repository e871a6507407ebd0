"""
Files that are probably not meant: by their names secrets, pointers of Git LFS in place of data, and
empty folders in place of submodules.

They are only a warning, since the user alone knows the contents. Secrets are told by their names,
and of other files those of the size of a pointer are read, so that a large tree costs nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

_NAMES = re.compile(
    r"""(?:
      \.env(?:\.(?!example|sample|template|dist)[\w.-]+)? | \.envrc
    | (?!example|sample|template|dist)[\w.-]+\.env
    | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?
    | .+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|tfstate)
    | (?:.+[_-])?private[_-]?key(?:\..+)?
    | .*(?:credentials?|service[_-]?account|client[_-]secrets?)[\w.-]*\.json
    | credentials | \.netrc | \.pgpass | \.pypirc | \.npmrc | \.htpasswd | \.git-credentials
    | \.dockerconfigjson | kubeconfig | kaggle\.json | \.s3cfg | \.boto | \.vault-token
    | (?:hf|github|gitlab|wandb|openai|api|access|auth)[_-]?token(?:\.txt)?
    | secrets?\.(?:json|ya?ml|toml|ini)
    )\Z""",
    re.VERBOSE | re.IGNORECASE,
)


def looks_secret(name: str) -> bool:
    """Whether a file of this name (no folders) often holds a secret."""
    return _NAMES.match(name) is not None


_POINTER = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_BYTES = range(100, 1024)
"""Source: the specification of Git LFS; a pointer is below 1024 bytes, and names a SHA-256."""


def is_pointer(path: Path, size: int) -> bool:
    """Whether the file, of that many bytes, is what Git LFS keeps in place of a large one."""
    if size not in _POINTER_BYTES:
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_POINTER)) == _POINTER
    except OSError:
        return False  # told when it is bundled


_SUBMODULE = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)


def submodules_in(file: Path) -> list[str]:
    """Return the folders that a `.gitmodules` file gives to submodules, relative to its own."""
    try:
        return _SUBMODULE.findall(file.read_text(errors="replace"))
    except OSError:
        return []  # told when it is bundled
