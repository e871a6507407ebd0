"""
The inbox: what a turn reads of it, and how that changes the draft of root.

In come requests of users and bells of agents; out go changes of the draft, answers, and objects
that are set aside. Read `inbox` first, which reads both within the limits of `fair_share`. Then
`arrivals`, which applies them: `bells` with the `proofs` that the bucket holds of their facts,
`requests` with `permissions`, what each user may do, `commands`, which run beside a job, and
`machine_requests`, which come from admins. `unwritten` keeps those whose objects the bucket does
not take. `ended_jobs` looks up final records, `registers` those of hosts.
"""
