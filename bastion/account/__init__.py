"""
What a bastion needs in its cloud's account: a bucket, identities, the right to make machines.

`Needs` come in; steps go out, each of which can be printed as commands for a shell, or taken. A
step looks first, and changes nothing that is as it should be, so all of them can be taken again at
any time. Nothing is ever taken away. The rights inside the bucket are in `bastion/service/access`.

Read `needs`, then `google` (with `google_apis` and `google_policies`) and `amazon`. `open` chooses
between them.
"""
