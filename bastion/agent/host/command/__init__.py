"""
Commands that users run beside the processes of a host, as `bastion exec` asks.

Comes in: an `Exec` instruction, and what the keeper tells of the command. Goes out: its output as
segments, and the write-once record of its end. Read `process` (whose place a command takes), then
`command` (one of them), then `commands` (those of one host, which end before the host does).
"""
