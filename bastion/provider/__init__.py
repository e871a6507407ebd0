"""
Providers of machines: the port, and one file for each adapter.

The input is a machine and its pool. The output is machines with agents, and the list of them. Read
`port` first, then `open`, which chooses the adapter, then an adapter: `local` or `fake`.

`agent_environment` and `build` serve `local`; `each_place` and `vm_names` serve clouds. `serving`
records which bastions serve a folder. `gcp/`, `aws/` and `azure/` are clouds, `own_hosts/` your own
hosts, `containers/` the containers of an engine, `slurm/` the nodes of a cluster, and `kubernetes/`
the pods of one.

`boot/` is how a new machine starts, `machine_folder` the folder of a local machine, and `way_in`
how a person reaches a machine.
"""
