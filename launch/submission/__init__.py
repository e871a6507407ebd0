"""
A submission: flags and files become a `Launch`.

Comes in: parsed flags. Goes out: a `bastion.spec.Launch`. Read `flags` (a job from flags),
`command` (the words after --), `code`
(which code goes with it), `foreign_flags` (flags of other systems that are understood), then
`foreign` (files of other systems).
"""
