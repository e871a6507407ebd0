"""
A working tree becomes a bundle (`upload`), and a tree in the cache of a machine (`fetch`).

Up: `select` chooses the files, as `ignore` says; `content` reads them, `pack` packs them, `limits`
are those of a bundle, and `cache` saves time. Down: `unpack` writes a tree. Between them lie the
`manifest`, the stored form of a tree, and `blobs`, the port to the store.
"""
