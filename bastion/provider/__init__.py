"""
Providers of machines: the port, and one file for each adapter.

A machine and its pool come in; machines with agents, and the list of them, go out. Read `port`
first, then `open`, which chooses the adapter; then an adapter, `local` or `fake`.
`agent_environment` and `build` serve `local`. `serving` notes which bastions serve a folder.
"""
