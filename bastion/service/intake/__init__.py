"""
The inbox: what a turn reads of it, and how that changes the draft of root.

In come requests of users and bells of agents; out go changes of the draft, answers, and objects
that are set aside. Read `inbox` first, which reads both within the limits of `fair_share`. Then
`arrivals`, which lets them in: `bells` with the `proofs` that the bucket holds of what they tell,
`requests` with `permissions`, who may ask for what. `ended_jobs` looks up final records,
`registers` those of hosts.
"""
