"""The version of Bastion; a test compares it with `pyproject.toml`."""

VERSION = "0.1.0"
