"""
One attempt in the keeper: its processes, their output, and how they end.

A checked request comes in; log files, notices and the fields of the end's record go out. Read
`attempt` first, then `process` with its `program_path`, and `process_tree`; `spool` and `outputs`
keep what processes write; `cgroup` and `undo` remove what is left; `signs_of_life`, `idle`, `tools`
and `stacks` find hung attempts and dump their stacks. All of it is standard library only.
"""
