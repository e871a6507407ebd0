"""
Azure Blob Storage.

`blobs` has the store: five requests of the REST API, each sent once. `caller` signs them, with a
key, a shared access signature or a token, `signed` sends one, `answers` reads what Azure returns,
and `names` are the names of blobs for keys.
"""
