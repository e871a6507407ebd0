"""
The command line: one function per verb, each a few lines on top of `bastion.Client`.

Input is a list of words; output is data on stdout, everything else on stderr, and an exit code.
Read `cli` (from words to an exit code; `start` loads it), `verbs` (the tree of verbs), `session`
(what the verbs share), then the verb in `commands/`. `grammar/` parses words, `submission/` builds
a launch from them, and `screen/` prints. `settings` finds the bastion to use, `errors` and `exits`
report how the command ended, `reference` generates the reference page, and `demo/` is what
`bastion demo` runs.

`handbook` finds the documentation that ships with the program.
"""
