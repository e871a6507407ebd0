"""
The needs of a host before it starts: code, image, Python environment, variables, secrets.

The start instruction and the job's spec come in; filled folders, a Python environment, values of
secrets and the environment of every process go out. Read `prepare` first, the order of the steps;
then `secret_values` (with `secret_sources`), `code_setup` (with `image`) and `python_env` (with
`uv_lock`). `environment` (with `aliases`, and `gpu_types` for the numbers of devices) is pure.
`run_as` gives folders to another user.
"""
