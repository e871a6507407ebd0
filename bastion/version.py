"""The version of Bastion; a test compares it with `pyproject.toml`."""

VERSION = "0.1.0"


def version_line(version: str, build: str) -> str:
    """Return a version with the beginning of its build's digest, if that is known."""
    return f"{version}, build {build[:12]}" if build else version
