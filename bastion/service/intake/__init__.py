"""
The inbox: what a turn reads of it, and how that changes the draft of root.

The input is requests of users and bells of agents; the output is changes of the draft, answers, and
objects that are set aside. Read `inbox` first, which reads both within the limits of `fair_share`.
Then read `arrivals`, which applies them: `bells` with the `proofs` that the bucket holds of their
facts; `requests` with `permissions`, what each user can do; `commands`, which run next to a job;
and `machine_requests`, which come from admins. `failing` has what the bucket does not
accept or return, and when that is given up. `ended_jobs` looks up final records, and `registers`
those of hosts.
"""
