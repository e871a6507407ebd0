"""
The words of other systems, and our command for each: one table of verbs, one of flags.

Source: sbatch(1), squeue(1), scontrol(1), sacct(1), scancel(1); `sky --help`; `dstack --help`;
`kubectl --help`; `ray --help`; `xpk --help`; `axlearn gcp --help`. Flags with a
single possible meaning are accepted (`launch/submission/foreign_flags.py`); the others are refused
with our equivalent as a hint.
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
    **dict.fromkeys(("port_forward", "port", "forward", "tunnel"), "ssh JOB --forward=PORT"),
    **dict.fromkeys(("diff", "compare"), "show JOB"),
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
"""Words that precede the verb in other systems, as in `axlearn gcp launch`."""

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
"""Words that precede a name in other systems, as in `kubectl describe pod NAME`."""

OF_THE_VM = ("create", "start", "stop", "delete", "upgrade")
"""Our verbs about the bastion's own VM; after the name of another system they mean a job."""

NOT_YET = {
    "autostop": "a pool deletes idle machines after its idle_timeout",
    **dict.fromkeys(
        ("storage", "volume", "volumes"),
        "a job reads buckets itself, and bastion fetch JOB downloads what it kept in"
        " BASTION_OUTPUT_DIR",
    ),
}
"""Features without a verb in Bastion, and what to do instead."""

DESTRUCTIVE = ("cancel", "restore", "release", "down", "agent")
"""Verbs that are never suggested for a misspelled verb."""

OF_ALL_JOBS = {
    **dict.fromkeys(("list", "status", "queue", "ls"), "show"),
    "history": "events",
    "down": "cancel",
}
"""Verbs to which users give a job although they take none, and our verb for one job."""

ALONE = ("--exclusive", "--label", "--overlap", "--unbuffered", "--yes", "-l", "-u", "-y")
"""Flags of Slurm and SkyPilot that take no value and have no meaning here."""

FLAGS = {
    "--image": "--bundler_type=image --bundler_spec=ref=NAME",
    "--docker": "--bundler_type=image --bundler_spec=ref=NAME",
    "--image_id": "--bundler_type=image --bundler_spec=ref=NAME",
    "--docker_image": "--bundler_type=image --bundler_spec=ref=NAME",
    "--container_image": "--bundler_type=image --bundler_spec=ref=NAME",
    "--requirements": "--python_env=requirements.txt --code=.",
    "--conda": "--python_env=requirements.txt --code=.",
    "--env_file": "use --flagfile=FILE, a file with one --env=NAME=TEXT per line",
    "--envs": "--env=NAME=TEXT",
    "--export": "--env=NAME=TEXT",
    "--follow": "to follow the log: bastion run -- COMMAND, or launch --watch",
    "--detach": "omit it: launch never waits",
    "--detach_run": "omit it: launch never waits",
    "--async": "omit it: launch never waits",
    "--wait": "to wait for the job: bastion run -- COMMAND, or launch --watch",
    "--timeout": "--max_runtime=TIME",
    "--time_limit": "--max_runtime=TIME",
    "--deadline": "--max_runtime=TIME",
    "--walltime": "--max_runtime=TIME",
    "--spot": "omit it: all machines of a pool are spot or not; choose one with --pool=NAME",
    "--use_spot": "omit it: all machines of a pool are spot or not; choose one with --pool=NAME",
    "--preemptible": "omit it: a preempted job resumes; to prevent that: --no_resume",
    "--requeue": "omit it: a preempted job resumes; --retries=N is for failures",
    "--no_requeue": "--no_resume",
    "--max_restarts": "--retries=N",
    "--max_retries": "--retries=N",
    "--max_retry": "--retries=N",
    "--depends_on": "--after=JOB",
    "--lines": "--tail=N",
    "--backoff_limit": "--retries=N",
    "--restart": "--retries=N",
    "--ntasks": "--replicas=N",
    "-a": "--array=0-99%10, which runs 10 at a time",
    "-n": "--replicas=N for copies, --name=NAME for a name",
    "-": "give the script as a file, such as bastion launch job.sbatch",
    "--ntasks_per_node": "--replicas=N; the command starts several processes on a host itself",
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
    "--nodelist": "--hostname=NAME, which can be repeated",
    "-w": "--hostname=NAME, which can be repeated",
    "--zone": "--pool=NAME; the admin configures the zones of a pool",
    "--region": "--pool=NAME; the admin configures the zones of a pool",
    "--cloud": "--pool=NAME; each pool has one provider",
    "--infra": "--pool=NAME; each pool has one provider",
    "--constraint": "--pool=NAME, --cluster=NAME or --shard=NAME",
    "--switches": "--same=LABEL, with a label of pools that share a switch",
    "--error": "omit it: bastion logs JOB includes stderr",
    "--mail_type": "--notify=WEBHOOK --notify_on=ended",
    "--mail_user": "--notify=WEBHOOK",
    "--output_dir": "a job writes into $BASTION_OUTPUT_DIR; bastion fetch JOB FOLDER copies it",
    "--detailed_exitcode": "--exit_code",
    "--format": "-o json, -o wide or -o name",
    "--me": "--mine",
    "--verbose": "--debug",
    "-v": "--debug",
    "--filename": "omit it: give the file alone, bastion launch FILE",
    "--config": "use --flagfile=FILE for a file of flags, bastion config set for settings",
    "--user": "--user_id=USER",
    "-u": "--user_id=USER",
    "--project": "--project_id=PROJECT",
    "--command": "omit it: give the command after --, bastion launch -- COMMAND",
    "--yes": "omit it: nothing asks for confirmation",
    "-y": "omit it: nothing asks for confirmation",
    "--refresh": "omit it: the last line says how old the output is",
    "--begin": "--hold, then bastion release JOB",
    "--signal": "--grace=TIME: the job gets its notice this long before it is killed",
    "-f": "omit it: give the file alone, bastion launch FILE",
    "-e": "--env=NAME=TEXT; for an error file, omit it: bastion logs JOB includes stderr",
    "-l": "--resources=TYPE=N",
    "--force": "omit it: jobs can have the same name; to end one: bastion cancel JOB",
    "--retry_until_up": "omit it: a job waits in the queue until it can start",
    "--down": "omit it: a pool deletes machines that stay idle",
    "--idle_minutes_to_autostop": "omit it: a pool deletes machines that stay idle",
    "-i": "omit it: a pool deletes machines that stay idle",
    "--cluster_name": "--name=NAME for the job, --pool=NAME for its machines",
    "--disk_size": "omit it: a pool's machines have the disk that its admin gave them",
    "--disk_tier": "omit it: a pool's machines have the disk that its admin gave them",
    "--mem_per_cpu": "--mem=SIZE, per replica",
    "--mem_per_gpu": "--mem=SIZE, per replica",
    "--open_mode": "omit it: each attempt has a log of its own",
    "--pty": "omit it: for a shell in a running job, bastion exec JOB -- bash",
    "--entrypoint": "omit it: give the command after --, bastion launch -- COMMAND",
    "--ports": "omit it: a job can listen on any port of its machine",
    **dict.fromkeys(
        ("--volume", "--volumes", "--mount", "--mounts", "--storage", "--file_mounts"),
        "omit it: nothing is mounted; a job reads buckets itself, or files of its machine",
    ),
}
"""What other systems call a flag, and our equivalent."""

NEEDS_VALUE = {
    "-d": "omit SkyPilot's -d, as launch never waits; Slurm's is -d afterok:JOB",
}
"""Flags that other systems have without a value, and what to use."""

OF_LISTS = {
    **dict.fromkeys(("-t", "--states"), "--state=STATE"),
    "--all_users": "omit it: the list has the jobs of all users",
    "-j": "omit it: for one job, bastion show JOB",
}
"""What others call a flag of a list of jobs; for one job `-t` is its time limit."""

OF_SIMULATE = {
    "--cluster_job_log": "omit it: give the trace alone, bastion simulate TRACE",
    "--jobs_per_hour": "--load=N",
    **dict.fromkeys(("--gpus", "--nodes", "--cluster"), "--machines=4x8, four machines of eight"),
    "--round_duration": "--round=N",
    "--exp_prefix": "--report=FILE, --jobs_json=FILE",
    "--sim_type": "omit it: without a trace, --load generates jobs",
    "--simulate": "omit it: this verb always simulates",
    "--simulator_rpc_port": "omit it: parallel simulations need no port",
    "--start_id_track": "--first=N of a trace",
    "--stop_id_track": "--first=N of a trace",
}
"""What a scheduler simulator calls a flag, and our equivalent. Source: Blox."""
