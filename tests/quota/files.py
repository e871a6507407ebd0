"""Quota files that several tests are about."""

from __future__ import annotations

FIRST = """\
[toml-schema]
version = "1"

[total_resources]            # whole units by resource type
v4 = 1024

[project_membership]
project1 = ["user1", "user2"]      # names or full-match regular expressions
project2 = ["user1", "user3"]

[project_resources.project1]       # fractions of the total
v4 = 0.6
[project_resources.project2]
v4 = 0.4
"""
"""The file that existing users have."""

OPTIONS = """
[project_options.project1]
ceiling = { v4 = 0.9 }
lend = { v4 = 0.5 }
order = "fifo"
admins = ["user2", "lead-.*"]
[scheduler]
min_runtime_s = 60
grace_s = 10.5
max_grace_s = 100
plan_after_s = 0
borrow_slice_s = 1e4
usage_half_life_s = 3600
order = "las"
admission = "load-limit"
placement = "spread"
preemption = "order"
max_queued_per_user = 7
load_limit = 1.5
"""
"""Every optional table, to stand below `FIRST`."""
