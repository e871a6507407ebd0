"""The words that may stand first: verbs by family, their aliases, and what other systems say."""

from __future__ import annotations

FAMILIES = {
    "submit": ("launch", "run", "rerun", "import", "bundle"),
    "see": ("list", "show", "why", "events", "logs", "fetch", "wait", "pool", "machines", "status"),
    "change": ("cancel", "hold", "release", "prioritize", "update", "exec"),
    "admin": ("serve", "agent", "quota", "fsck", "restore", "demo"),
    "set up": ("config", "setup", "completion"),
}
"""The verbs as the first page of help shows them."""

ALIASES = {"ls": "list", "queue": "list"}

FOREIGN_VERBS = {
    "submit": "launch",
    "sbatch": "launch",
    "srun": "run",
    "start": "launch",
    "jobs": "list",
    "ps": "list",
    "squeue": "list",
    "kill": "cancel",
    "stop": "cancel",
    "delete": "cancel",
    "scancel": "cancel",
    "describe": "show",
    "get": "show",
    "nodes": "machines",
    "hosts": "machines",
    "sinfo": "pool",
}
"""What other systems call a verb; not accepted, only named."""

SEVERAL_VERBS = (*(verb for family in FAMILIES.values() for verb in family), *ALIASES)
"""Every word that may stand first."""
