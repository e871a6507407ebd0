"""
The command line: one verb a function, each a few lines on top of `bastion.Client`.

In comes a list of words; out go data on stdout, everything else on stderr, and an exit code. Read
`cli` (from words to an exit code; `start` loads it), `verbs` (the tree of verbs), `session` (what
the verbs share), then the verb in `commands/`. `grammar/` parses words, `submission/` makes a
launch of them, and `screen/` prints. `settings` finds the bastion that is meant, `errors` and
`exits` say how it ended, `reference` writes the page of reference, and `demo/` is what
`bastion demo` plays.

`handbook` is the documentation that comes along.
"""
