"""
Commands that users run beside the processes of a host, by `bastion exec`.

An `Exec` instruction and the keeper's reports come in; output segments and the write-once end of
the command go out. Read `process` first (the process that a command imitates), then `command` (one
of them), then `commands` (all of one host, which end before the host does). `long_command` reads
arguments that are too long for an instruction.
"""
