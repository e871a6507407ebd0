"""
Code and outputs: uploaded with a launch, and fetched from a job.

A folder, repository, image or job comes in. An exact reference, or files on disk, go out. Read
`upload` (with `named_files`), `stored_code`, then `outputs`.
"""
