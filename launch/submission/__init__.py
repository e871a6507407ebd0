"""
A submission: flags and files become a `Launch`.

Comes in: parsed flags. Goes out: a `bastion.spec.Launch`. Read `flags` (a job from flags), `code`
(which code goes with it), then `foreign` (files of other systems).
"""
