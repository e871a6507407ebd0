"""The words that may stand first: verbs by family, their aliases, and the page about each."""

from __future__ import annotations

FAMILIES = {
    "submit": ("launch", "run", "rerun", "import", "bundle"),
    "see": (
        "list",
        "show",
        "why",
        "events",
        "logs",
        "fetch",
        "wait",
        "pool",
        "machines",
        "top",
        "status",
        "web",
        "history",
        "usage",
        "query",
    ),
    "change": ("cancel", "hold", "release", "prioritize", "update"),
    "enter": ("exec", "ssh", "notebook"),
    "admin": (
        "up",
        "down",
        "serve",
        "agent",
        "quota",
        "simulate",
        "doctor",
        "fsck",
        "restore",
        "demo",
    ),
    "machines": ("cordon", "uncordon", "drain", "machine"),
    "its VM": ("create", "start", "stop", "upgrade", "delete"),
    "set up": ("config", "auth", "setup", "completion", "help"),
}
"""The verbs as the first page of help shows them."""

ALIASES = {"ls": "list", "queue": "list"}

SEVERAL_VERBS = (*(verb for family in FAMILIES.values() for verb in family), *ALIASES)
"""Every word that may stand first."""

PAGES = {
    "launch": "your-first-launch",
    "run": "your-first-launch",
    "rerun": "code-and-reproducibility",
    "import": "come-from-another-system",
    "bundle": "code-and-reproducibility",
    "why": "read-a-refusal",
    "cancel": "stop-and-resume",
    "hold": "gangs-and-failures",
    "release": "gangs-and-failures",
    "exec": "look-into-a-running-job",
    "ssh": "look-into-a-running-job",
    "notebook": "look-into-a-running-job",
    "quota": "write-a-quota-file",
    "simulate": "choose-a-policy",
    "doctor": "a-vm-for-the-bastion",
    "serve": "a-vm-for-the-bastion",
    "create": "a-vm-for-the-bastion",
    "start": "a-vm-for-the-bastion",
    "stop": "a-vm-for-the-bastion",
    "upgrade": "a-vm-for-the-bastion",
    "delete": "a-vm-for-the-bastion",
    "fsck": "recover-a-bucket",
    "restore": "recover-a-bucket",
    "setup": "secure-a-bucket",
    "up": "tutorial",
    "down": "tutorial",
    "demo": "tutorial",
    "history": "who-used-what",
    "usage": "who-used-what",
    "query": "who-used-what",
}
"""The page to read next about a verb; every other verb is explained in `cli`."""
EVERY_VERB_PAGE = "cli"
