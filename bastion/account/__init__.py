"""
What a bastion needs in its cloud's account: a bucket, identities, permission to create machines.

The input is `Needs`. The output is steps, each of which can be printed as shell commands or taken.
A step looks first, and does not change what is already correct, so all of them can be repeated at
any time. Nothing is ever removed. The permissions inside the bucket are in
`bastion/service/access`.

Read `needs`, then `google` (with `google_apis` and `google_policies`), `amazon` and `azure`, which
covers only machines. `open` chooses between them.
"""
