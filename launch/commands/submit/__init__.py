"""
Verbs that send a launch: launch, run, rerun, import, bundle.

Read `launch` (builds a launch from flags or a file, and sends it), `script` (runs a program that
submits launches itself), `submitted` (prints what was submitted), `followed` (follows it), then
`rerun`, `imports` and `bundle`.
"""
