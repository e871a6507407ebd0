"""
Tables of the configuration that both the bastion and its clients read.

`keep` is how long logs stay, `secrets` who may read which, and `webhooks` with `notification` who
is told of what.
"""
