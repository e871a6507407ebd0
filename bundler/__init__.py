"""
`bundler`: a working tree becomes one content-addressed bundle, and a working directory again.

The package imports nothing of `bastion`, and of `quota` only what a value is. It prints nothing,
and uses the store through three methods (`bundler.bundle.blobs.Blobs`). It must not know what a job
is, or where keys lie in the bucket. This file imports nothing, so that an import of one file costs
that file alone: write `from bundler.bundle.upload import bundle`.

`code` is what users write and what is stored of it, `options` the same on the command line. Code is
a `bundle/`, a commit of a `repository/`, or one of `images/`; `copies/` are what machines have of
it. `tree` is a tree as data, `root` where it begins, and `suspect` names that often hold secrets.
Shared by all: `errors`, `misuse` of arguments, `lanes` (threads), `progress`, `size` and `url`.
"""
