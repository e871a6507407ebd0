"""
The grammar: the verbs and flags, and the hints for unknown words.

Input: the words before `--`. Output: parsed flags, or a `UsageError` that suggests the right words.
Read `vocabulary` (verbs by family), `parser` (flags), `foreign_words` (names in other systems),
`unknown_words` (the hints), then `shells` (completion).

`program_words` are whole commands of other programs, `slurm_words` those of Slurm, and `states` the
job states of other systems.
"""
