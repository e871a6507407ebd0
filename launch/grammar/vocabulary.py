"""The words that may stand first: verbs by family, and their aliases."""

from __future__ import annotations

FAMILIES = {
    "submit": ("launch", "run", "rerun", "import", "bundle"),
    "see": ("list", "show", "why", "events", "logs", "fetch", "wait", "pool", "machines", "status"),
    "change": ("cancel", "hold", "release", "prioritize", "update"),
    "enter": ("exec", "ssh", "notebook"),
    "admin": ("up", "down", "serve", "agent", "quota", "doctor", "fsck", "restore", "demo"),
    "its VM": ("create", "start", "stop", "upgrade", "delete"),
    "set up": ("config", "setup", "completion", "help"),
}
"""The verbs as the first page of help shows them."""

ALIASES = {"ls": "list", "queue": "list"}

SEVERAL_VERBS = (*(verb for family in FAMILIES.values() for verb in family), *ALIASES)
"""Every word that may stand first."""
