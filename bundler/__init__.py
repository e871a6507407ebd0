"""
`bundler`: a working tree becomes one content-addressed bundle, and a working directory again.

The package imports nothing of `bastion`, and of `quota` only what a value is. It prints nothing,
and uses the store through three methods (`bundler.blobs.Blobs`). It must not know what a job is, or
where keys lie in the bucket. This file imports nothing, so that an import of one file costs that
file alone: write `from bundler.upload import bundle`.
"""
