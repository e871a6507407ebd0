"""
The bastion's own VM: one small machine in a cloud that only runs `bastion serve`.

The input is a `BastionVm`, the output calls to the cloud. Read `bastion_vm` (its properties),
`script` (what it runs at each boot), then `gce` and `ec2`, which create, start, stop, upgrade and
delete it. `open` chooses between them.
"""
