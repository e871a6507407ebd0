"""
Providers of machines: the port, and one file for each adapter.

A machine and its pool come in; machines with agents, and the list of them, go out. Read `port`
first, then `open`, which chooses the adapter; then an adapter, `local` or `fake`.
`agent_environment` and `build` serve `local`, `each_place` clouds. `serving` notes which bastions
serve a folder.

`gcp/` and `aws/` are clouds, `own_hosts/` machines of one's own, `containers/` those of an engine,
`slurm/` nodes of a cluster, `kubernetes/` pods of one.
`boot/` is how a new machine begins, `machine_folder` the folder of a local one, and `way_in` how a
person reaches one.
"""
