"""
The bastion's own VM: one small machine in a cloud that only runs `bastion serve`.

The input is a `BastionVm`, the output calls of the cloud. Read `bastion_vm` (what it is), `script`
(what it runs at each boot), then `gce` and `ec2`, which create, start, stop, upgrade and delete it.
`renewed` computes what an upgrade keeps, and `open` chooses between the clouds.
"""
