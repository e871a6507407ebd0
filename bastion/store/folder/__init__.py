"""
A folder that behaves like a bucket, for many processes on one machine.

`local` is the store. `lock` keeps its writers apart, `mark` names temporary files, `watch` tells at
once what others have written. `filesystem` says whether other machines may write there, and
`folder_identity` whether the folder is still the one that it was.
"""
