"""
Microsoft's machines: VMs of Azure (`azure_vm`).

The input is pools and machines. The output is requests to Azure Resource Manager. Read `verdicts`
first (what an error means), then `arm` (how a request is made), then `vms` with `vm_request` (what
a new VM consists of) and `vm_pool` (what is checked first).

`vm_states` reads the state of a VM, and `rights` reports what an identity may not do. All except
`arm` and `vms` is pure.
"""
