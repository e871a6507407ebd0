"""The states of a job as other systems call them. Source: squeue(1), sacct(1)."""

from __future__ import annotations

_OURS = {
    **dict.fromkeys(("pd", "pending"), "queued"),
    "r": "running",
    **dict.fromkeys(("cg", "completing"), "stopping"),
    **dict.fromkeys(("cd", "completed"), "succeeded"),
    "f": "failed",
    **dict.fromkeys(("ca", "canceled"), "cancelled"),
    **dict.fromkeys(("to", "timeout"), "timed_out"),
    "oom": "out_of_memory",
    **dict.fromkeys(("nf", "node_fail"), "lost"),
    "pr": "preempted",
}


def own_state(word: str) -> str:
    """Return our word for a job state, in lower case; another word is only lowercased."""
    plain = word.lower()
    return _OURS.get(plain, plain if plain.replace("_", "").isalpha() else word)
