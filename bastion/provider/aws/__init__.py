"""
Amazon's machines: instances of EC2 (`ec2`).

The input is pools and machines. The output is calls to EC2, made by boto3. Read `batch` first (what
links an instance to a machine), then `verdicts` (what an error means), then `ec2` with
`ec2_request` (what a new instance consists of) and `ec2_pool` (what is checked first). All except
`ec2` is pure.

`client` is Amazon's own client, `calls` makes single calls and interprets their failures, and
`instances` describes existing instances.
"""
