"""
A submission: flags and files become a `Launch`.

Input: parsed flags. Output: a `bastion.spec.Launch`. Read `flags` (a job from flags), `command`
(the words after --), `code` (the code to send), `foreign_flags` (flags of other systems that are
understood), then `foreign` (files of other systems).
"""
