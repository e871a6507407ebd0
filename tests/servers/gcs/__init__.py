"""
A small Google Cloud Storage: the JSON API over HTTP on loopback, for tests.

It keeps what the tests of a coordinator depend on, exactly: generations, every precondition, the
errors and their bodies, paging, ranges, the three kinds of upload. It keeps nothing else: no ACLs,
no lifecycle, no older generations. `storage.py` is the state, `answers.py` what is said about it,
`api.py` the methods, `server.py` HTTP.

    python -m tests.servers.gcs --port 0 --bucket b
"""

from tests.servers.gcs.server import Caller, GcsServer

__all__ = ["Caller", "GcsServer"]
