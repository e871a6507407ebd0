"""
Verbs that send a launch: launch, run, rerun, import, bundle.

Read `launch` (flags or a file become a launch, which is sent), `script` (a program that submits for
itself), `followed` (what comes after), then
`rerun`, `imports` and `bundle`.

`submitted` is what is printed after a submission.
"""
