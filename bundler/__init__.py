"""
`bundler`: a working tree becomes one content-addressed bundle, and a working directory again.

Rules of this room: it imports nothing of ours, it prints nothing, and it knows the store only as
three methods (`bundler.blobs.Blobs`). It must not know what a job is, or where keys live in the
bucket. Nothing is imported here, so that importing one file costs that file alone: say `from
bundler.upload import bundle`.
"""
