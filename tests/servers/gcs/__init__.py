"""
A small Google Cloud Storage: the JSON API over HTTP on loopback, for tests.

It reproduces exactly what the tests of a coordinator depend on: generations, every precondition,
the errors and their bodies, paging, ranges, the three kinds of upload. It has nothing else: no
ACLs, no lifecycle, no older generations. `storage.py` is the state, `answers.py` the responses,
`api.py` the methods, `server.py` HTTP.

    python -m tests.servers.gcs --port 0 --bucket b
"""

from tests.servers.gcs.server import Caller, GcsServer

__all__ = ["Caller", "GcsServer"]
