"""
Maximum sizes of stored objects, by kind.

A limit bounds memory, and it is enforced while an object is received. Each is far above what
Bastion writes, and below what would harm the reader.
"""

from __future__ import annotations

REQUEST_BYTES = 256 << 10
"""Every verb but launch: 1,000 targets of the longest names."""

LAUNCH_BYTES = 4 << 20
"""A request to launch: 900 jobs with environments of 4 kB."""

REQUEST_VALUES = 200_000
"""Values in one request, lists and tables included: checking takes a few microseconds each."""

BELL_BYTES = 1 << 20
"""One bell: all facts of a machine since the previous bell."""

REGISTER_BYTES = 1 << 20
"""A claim, an end, a start barrier or a keeper life; an end carries the last lines of a job."""

BATCH_BYTES = 4 << 20
"""One batch of instructions to a machine."""

RECORD_BYTES = 16 << 20
"""A record that the bastion writes for one launch: its spec, its answer, a job's result."""

ADMIN_FILE_BYTES = 1 << 20
"""The quota file and `config/bastion.toml`: 10,000 projects take about this much."""

LOG_TAIL_BYTES = 64 << 10
"""The latest lines of a bastion's own log."""
