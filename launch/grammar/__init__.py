"""
The grammar: which verbs and flags there are, and what is said about words that are neither.

Comes in: the words before `--`. Goes out: parsed flags, or a `UsageError` with the words that were
meant. Read `vocabulary` (verbs by family), `parser` (flags), `foreign_words` (what other systems
call them), `unknown_words` (what is answered), then `shells` (completion).

`program_words` are whole commands of other programs, `slurm_words` those of Slurm, and `states`
what others call the states of a job.
"""
