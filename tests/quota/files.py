"""Quota files that several tests use."""

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
"""The options of one project and of the scheduler, to follow `FIRST`."""

LIMITS = """
[project_options.project2]
borrow = false
weight = 2.5
budget = { v4 = 5000 }
budget_period = "week"
default_max_runtime = "8h"
max_max_runtime = 259200
max_units_per_user = { v4 = 128 }
max_running_per_user = 16
[project_options.project2.users."intern-.*"]
max_max_runtime = "9h"
max_running = 2
[project_options.project2.users.user3]
max_units = { v4 = 256 }
[project_groups.lab]
members = ["team", "project2"]
share = { v4 = 0.6 }
ceiling = { v4 = 0.8 }
lend = { v4 = 0.5 }
weight = 3
budget = { v4 = 9000 }
[project_groups.team]
members = ["project1"]
[[maintenance]]
from = 2026-12-06T08:00:00+01:00
until = 2026-12-06T18:00:00Z
machines = ["host-3"]
[[maintenance]]
from = 2026-12-05T08:00:00+01:00
until = 2026-12-05T18:00:00+01:00
pools = ["pod"]
reason = "new cooling"
"""
"""Limits of users, groups and maintenance, to follow `FIRST` with smaller shares."""

SMALLER = FIRST.replace("0.6", "0.25").replace("0.4", "0.25")
"""`FIRST`, with shares that leave room for a group's own."""
