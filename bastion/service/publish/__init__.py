"""
The views of the queue, the pools and the bastion, which users read.

In come a committed root, its plan and the files in force; out come JSON objects below `view/`.
Views are not state: no decision depends on them. Read `views` first, then `array_rows`;
`bucket_readme` explains the bucket to those that open it without Bastion.
"""
