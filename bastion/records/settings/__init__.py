"""
Tables of the configuration that both the bastion and its clients read.

`keep` says how long logs stay, `secrets` which project can have which secret, and `webhooks` with
`notification` where notifications go. `slow_pattern` refuses expressions for users, in the quota
file, that some names would keep busy.
"""
