"""
Code and outputs: what is uploaded with a launch, and what is fetched from a job.

Comes in: a folder, repository or image, or a job. Goes out: an exact reference, or files on disk.
Read `upload` (with `named_files`), `stored_code`, then `outputs`.
"""
