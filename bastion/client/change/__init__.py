"""
Changes: a user's requests go into the inbox, and the bastion's answers come out.

A verb and its body come in. An `Answer` goes out, or an error that says whether the request may
have arrived. Read `request_id` (names of requests), `presence` (is there a bastion to answer),
`inbox` (post, wait), `requests` (one user's requests, idempotency keys), `operator` (an admin's
requests about machines), then `busy_error` and `user`.

`quota_file` reads, checks and replaces the quota file, which an admin writes without the bastion.
"""
