"""
Amazon's machines: instances of EC2 (`ec2`).

Pools and machines come in; calls of EC2, made by boto3, go out. Read `batch` first (what ties an
instance to a machine), then `verdicts` (what an error means), then `ec2` with `ec2_request` (what a
new instance is made of) and `ec2_pool` (what is checked before). All but `ec2` is pure.

`client` is Amazon's own, `calls` are single calls and what their failures mean, and `instances`
what is there.
"""
