"""
A folder that behaves like a bucket, for many processes on one machine.

`local` is the store. `lock` keeps its writers apart, `mark` names temporary files, and `watch`
reports writes of other processes immediately. `filesystem` says whether other machines may write
there, and `folder_identity` whether the folder is still the same one.
"""
