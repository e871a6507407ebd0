"""
The words of other systems, and our command for each: one table for verbs, one for flags.

Source: sbatch(1), squeue(1), scontrol(1), sacct(1), scancel(1); `sky --help`; `dstack --help`;
`kubectl --help`; `ray --help`; `xpk --help`; `axlearn gcp --help`. What can mean one
thing here is simply understood (`launch/submission/foreign_flags.py`); the rest is answered with
our own words.
"""

from __future__ import annotations

VERBS = {
    # Slurm
    "sbatch": "launch FILE.sbatch",
    "srun": "run -- COMMAND",
    "squeue": "list",
    "scancel": "cancel JOB",
    "sinfo": "pool",
    "sacct": "history",
    "sprio": "why JOB",
    "sacctmgr": "quota show",
    "sstat": "show JOB",
    "sattach": "logs -f JOB",
    "sshare": "status",
    "sdiag": "status",
    "smap": "pool",
    "sview": "web --open",
    "sreport": "usage",
    "cost_report": "usage",
    "cost": "usage",
    "scontrol": "show JOB",
    "seff": "show JOB",
    "requeue": "rerun JOB",
    "qsub": "launch -- COMMAND",
    "qstat": "list",
    "qdel": "cancel JOB",
    # sky, dstack, kubectl, xpk, axlearn
    "submit": "launch -- COMMAND",
    "shell": "exec JOB -- bash",
    **dict.fromkeys(("port_forward", "forward", "tunnel"), "ssh JOB --forward=PORT"),
    "apply": "launch FILE.toml",
    "secret": "help secrets",
    "secrets": "help secrets",
    "workload": "launch -- COMMAND",
    "jobs": "list",
    "ps": "list",
    "get": "list",
    "describe": "show JOB",
    "inspect": "show JOB",
    "info": "show JOB",
    "watch": "list --watch",
    "gpus": "pool",
    "show_gpus": "pool",
    "accelerators": "pool",
    "pools": "pool",
    "clusters": "pool",
    "nodes": "machines",
    "hosts": "machines",
    "node": "machines",
    "undrain": "uncordon MACHINE",
    "kill": "cancel JOB",
    "rm": "cancel JOB",
    "remove": "cancel JOB",
    "abort": "cancel JOB",
    "tail": "logs -f JOB",
    "follow": "logs -f JOB",
    "log": "logs JOB",
    "attach": "logs -f JOB",
    "output": "logs JOB",
    "download": "fetch JOB",
    "cp": "fetch JOB",
    "sync": "fetch JOB",
    "pull": "fetch JOB",
    "rsync": "fetch JOB",
    "pause": "hold JOB",
    "suspend": "hold JOB",
    "resume": "release JOB",
    "unpause": "release JOB",
    "retry": "rerun JOB",
    "restart": "rerun JOB",
    "repeat": "rerun JOB",
    "resubmit": "rerun JOB",
    "nice": "prioritize JOB --priority=N",
    "edit": "update JOB --priority=N",
    "init": "config set root=URL",
    "login": "auth",
    "gcp": "config set root=gs://BUCKET/FOLDER",
    "whoami": "config show",
    "context": "config activate PROFILE",
    "use": "config activate PROFILE",
    "profile": "config list",
    "settings": "config show",
    "server": "serve",
    "daemon": "serve",
    "bastion": "serve",
    "check": "doctor",
    "version": "--version",
    "explain": "why JOB",
    "reason": "why JOB",
    "event": "events JOB",
    "members": "quota show",
    **dict.fromkeys(("group", "groups", "limits", "maintenance"), "quota show"),
    **dict.fromkeys(("reserve", "reservation", "reservations"), "help write-a-quota-file"),
    **dict.fromkeys(("budget", "budgets"), "status"),
    **dict.fromkeys(("report", "chargeback", "billing"), "usage"),
    **dict.fromkeys(("backup", "snapshot"), "help recover-a-bucket"),
    "migrate": "help come-from-another-system",
    "convert": "import FILE.sbatch",
    "shares": "quota show",
    "bug_report": "doctor",
    "projects": "quota show",
    "dryrun": "launch --dry_run -- COMMAND",
    "ui": "web --open",
    "dashboard": "web --open",
}
"""What other systems call a verb, and our command for it."""

PROGRAMS = ("axlearn", "bastion", "dstack", "flambe", "gcp", "kubectl", "ray", "sky", "xpk")
"""Words that stand before the verb elsewhere, as in `axlearn gcp launch`."""

PHRASES = {
    ("scontrol", "show"): "show JOB",
    ("scontrol", "hold"): "hold JOB",
    ("scontrol", "suspend"): "hold JOB",
    ("scontrol", "release"): "release JOB",
    ("scontrol", "requeue"): "rerun JOB",
    ("scontrol", "requeuehold"): "rerun JOB",
    ("jobs", "launch"): "launch -- COMMAND",
    ("jobs", "queue"): "list",
    ("jobs", "cancel"): "cancel JOB",
    ("jobs", "logs"): "logs JOB",
    ("serve", "up"): "launch -- COMMAND",
    ("serve", "down"): "cancel JOB",
    ("serve", "status"): "list",
    ("serve", "logs"): "logs JOB",
    ("job", "submit"): "launch -- COMMAND",
    ("job", "list"): "list",
    ("job", "logs"): "logs JOB",
    ("job", "status"): "show JOB",
    ("job", "stop"): "cancel JOB",
    ("list", "jobs"): "list",
    ("get", "nodes"): "machines",
    ("get", "node"): "machines",
    ("show", "nodes"): "machines",
    ("top", "nodes"): "top",
}
"""Two words of another system, and our command for both."""

NOUNS = ("job", "jobs", "pod", "pods", "workload", "workloads")
"""What stands before a name elsewhere, as in `kubectl describe pod NAME`."""

OF_THE_VM = ("create", "start", "stop", "delete", "upgrade")
"""Our verbs about the bastion's own VM; behind another system's name they mean a job."""

NOT_YET = {
    "autostop": "a pool deletes machines that stay idle; its idle_timeout says when",
    **dict.fromkeys(
        ("storage", "volume", "volumes"),
        "a job reads buckets itself, and bastion fetch JOB brings what it kept in"
        " BASTION_OUTPUT_DIR",
    ),
}
"""What Bastion has no verb for, and what serves meanwhile."""

DESTRUCTIVE = ("cancel", "restore", "release", "down", "agent")
"""Verbs that no misspelling is answered with."""

OF_ALL_JOBS = {"list": "show", "status": "show", "queue": "show", "ls": "show", "down": "cancel"}
"""Verbs that users give a job although they take none, and our verb for one job."""

ALONE = ("--exclusive", "--label", "--overlap", "--unbuffered", "--yes", "-l", "-u", "-y")
"""Flags of Slurm and sky that take no value, and are nothing to a job here."""

FLAGS = {
    "--image": "--bundler_type=image --bundler_spec=ref=NAME",
    "--docker": "--bundler_type=image --bundler_spec=ref=NAME",
    "--image_id": "--bundler_type=image --bundler_spec=ref=NAME",
    "--docker_image": "--bundler_type=image --bundler_spec=ref=NAME",
    "--container_image": "--bundler_type=image --bundler_spec=ref=NAME",
    "--requirements": "--python_env=requirements.txt --code=.",
    "--conda": "--python_env=requirements.txt --code=.",
    "--env_file": "a file with a line --env=NAME=TEXT for each is given as --flagfile=FILE",
    "--envs": "--env=NAME=TEXT",
    "--export": "--env=NAME=TEXT",
    "--follow": "bastion run -- COMMAND follows; so does launch --watch",
    "--detach": "leave it out: launch never waits",
    "--detach_run": "leave it out: launch never waits",
    "--async": "leave it out: launch never waits",
    "--wait": "bastion run -- COMMAND waits; so does launch --watch",
    "--timeout": "--max_runtime=TIME",
    "--time_limit": "--max_runtime=TIME",
    "--deadline": "--max_runtime=TIME",
    "--walltime": "--max_runtime=TIME",
    "--spot": "leave it out: a pool's machines are spot or not, and --pool=NAME picks one",
    "--use_spot": "leave it out: a pool's machines are spot or not, and --pool=NAME picks one",
    "--preemptible": "leave it out: a preempted job resumes; --no_resume if it must not",
    "--requeue": "leave it out: a preempted job resumes; --retries=N is for failures",
    "--no_requeue": "--no_resume",
    "--max_restarts": "--retries=N",
    "--max_retries": "--retries=N",
    "--backoff_limit": "--retries=N",
    "--restart": "--retries=N",
    "--ntasks": "--replicas=N",
    "-a": "--array=0-99%10, of which ten run at once",
    "-n": "--replicas=N for copies, --name=NAME for a name",
    "-": "a script is given as a file, as bastion launch job.sbatch",
    "--ntasks_per_node": "--replicas=N; what starts several processes on a host is the command",
    "--num_slices": "--replicas=N",
    "--tpu_type": "--instance_type=TYPE",
    "--machine_type": "--instance_type=TYPE",
    "--device_type": "--instance_type=TYPE",
    "--partition": "--pool=NAME",
    "--queue": "--project_id=PROJECT, which its jobs are charged to",
    "--account": "--project_id=PROJECT, which its jobs are charged to",
    "-A": "--project_id=PROJECT, which its jobs are charged to",
    "--namespace": "--project_id=PROJECT, which its jobs are charged to",
    "--qos": "--priority=N, 1 (highest) to 5",
    "--nice": "--priority=N, 1 (highest) to 5",
    "--nodelist": "--hostname=NAME, which may be repeated",
    "-w": "--hostname=NAME, which may be repeated",
    "--zone": "--pool=NAME; a pool has the zones that its admin gave it",
    "--region": "--pool=NAME; a pool has the zones that its admin gave it",
    "--cloud": "--pool=NAME; a pool is of one provider",
    "--infra": "--pool=NAME; a pool is of one provider",
    "--constraint": "--pool=NAME, --cluster=NAME or --shard=NAME",
    "--switches": "--same=LABEL, a label of the pools that share a switch",
    "--error": "leave it out: bastion logs JOB has it",
    "--mail_type": "--notify=WEBHOOK --notify_on=ended",
    "--mail_user": "--notify=WEBHOOK",
    "--output_dir": "a job writes into $BASTION_OUTPUT_DIR; bastion fetch JOB FOLDER copies it",
    "--detailed_exitcode": "--exit_code",
    "--format": "-o json, -o wide or -o name",
    "--me": "--mine",
    "--verbose": "--debug",
    "-v": "--debug",
    "--filename": "leave it out: a file is given as it is, bastion launch FILE",
    "--config": "a file of flags is given as --flagfile=FILE; settings: bastion config set",
    "--user": "--user_id=USER",
    "-u": "--user_id=USER",
    "--project": "--project_id=PROJECT",
    "--command": "leave it out: the command stands after --, bastion launch -- COMMAND",
    "--yes": "leave it out: nothing asks",
    "-y": "leave it out: nothing asks",
    "--refresh": "leave it out: what is shown is never older than its last line says",
    "--begin": "--hold, then bastion release JOB",
    "--signal": "--grace=TIME: the notice comes that long before the end",
    "-f": "leave it out: a file is given as it is, bastion launch FILE",
    "-e": "--env=NAME=TEXT; a file of errors is left out, bastion logs JOB has it",
    "-l": "--resources=TYPE=N",
    "--force": "leave it out: jobs run beside one another, and bastion cancel JOB ends one",
    "--retry_until_up": "leave it out: a job waits in the queue until there is room",
    "--down": "leave it out: a pool deletes machines that stay idle",
    "--idle_minutes_to_autostop": "leave it out: a pool deletes machines that stay idle",
    "-i": "leave it out: a pool deletes machines that stay idle",
    "--cluster_name": "--name=NAME of the job; the machines are those of a pool, --pool=NAME",
    "--disk_size": "leave it out: a pool's machines have the disk that its admin gave them",
    "--disk_tier": "leave it out: a pool's machines have the disk that its admin gave them",
    "--mem_per_cpu": "--mem=SIZE, of each replica",
    "--mem_per_gpu": "--mem=SIZE, of each replica",
    "--open_mode": "leave it out: each attempt has a log of its own",
    "--pty": "leave it out: bastion exec JOB -- bash is a shell in a job that runs",
    "--entrypoint": "leave it out: the command stands after --, bastion launch -- COMMAND",
    "--ports": "leave it out: a job may listen on any port of its machine",
    **dict.fromkeys(
        ("--volume", "--volumes", "--mount", "--mounts", "--storage", "--file_mounts"),
        "leave it out: nothing is mounted; a job reads buckets itself, or what its machine has",
    ),
}
"""What other systems call a flag, and our words for it."""

NEEDS_VALUE = {
    "-d": "launch never waits, so -d of sky is left out; of Slurm it is -d afterok:JOB",
}
"""Flags that other systems have without a value, and what is meant."""

OF_LISTS = {
    **dict.fromkeys(("-t", "--states"), "--state=STATE"),
    "--all_users": "leave it out: a list has the jobs of everyone",
    "-j": "leave it out: bastion show JOB looks at one job",
}
"""What others call a flag of a list of jobs; `-t` of a job is its time."""

OF_SIMULATE = {
    "--cluster_job_log": "leave it out: a trace is given as it is, bastion simulate TRACE",
    "--jobs_per_hour": "--load=N",
    **dict.fromkeys(("--gpus", "--nodes", "--cluster"), "--machines=4x8, four machines of eight"),
    "--round_duration": "--round=N",
    "--exp_prefix": "--report=FILE, --jobs_json=FILE",
    "--sim_type": "leave it out: without a trace jobs are drawn as --load says",
    "--simulate": "leave it out: this verb always simulates",
    "--simulator_rpc_port": "leave it out: simulations beside one another need no port",
    "--start_id_track": "--first=N of a trace",
    "--stop_id_track": "--first=N of a trace",
}
"""What a simulator of schedulers calls a flag, and our words for it. Source: Blox."""
