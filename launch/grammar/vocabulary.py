"""The verbs by family, their aliases, and the documentation page of each."""

from __future__ import annotations

FAMILIES = {
    "submit": {
        "launch": "submit jobs",
        "run": "submit a job, follow its log, and exit with its exit code",
        "rerun": "submit a job's launch again, with the same spec and code",
        "import": "convert a job file of another system to a launch file (TOML)",
        "bundle": "upload code to the bucket and print its digest",
    },
    "inspect": {
        "list": "list active jobs: running first, then the queue",
        "show": "show the details of jobs",
        "why": "explain why jobs are in their state, and what would change it",
        "events": "show what happened to jobs, oldest first",
        "logs": "print the output of a job's processes",
        "fetch": "download the files that a job kept in BASTION_OUTPUT_DIR",
        "wait": "wait until jobs end, and exit with their exit code",
        "pool": "show the total and free capacity of pools; keep machines ready",
        "machines": "list all machines and the jobs on them",
        "top": "show the current use of every machine and device, by job",
        "status": "show the bastion's leader, the quota in force and problems",
        "web": "serve web pages that show pools, the queue and every job",
        "history": "list jobs that have ended, with their device hours and cost",
        "usage": "summarize usage: device hours, waits, waste, cost",
        "query": "query the record of all jobs in SQL",
    },
    "change": {
        "cancel": "cancel jobs, or all jobs of a launch",
        "hold": "keep waiting jobs from starting",
        "release": "let held jobs start; end the hold of a failed job",
        "prioritize": "change the priority of jobs",
        "update": "change waiting or running jobs",
    },
    "connect": {
        "exec": "run a command inside a running job",
        "ssh": "open a shell on the machine of a running job",
        "notebook": "run Jupyter as a job and open a tunnel to it",
    },
    "admin": {
        "up": "start a bastion and its local machines on this host",
        "down": "stop the bastion of this host and its local machines",
        "serve": "run the bastion",
        "agent": "run the agent of a machine; pools start it automatically",
        "quota": "show, check, compare or change the quota file",
        "simulate": "simulate jobs on a virtual clock to compare policies and quotas",
        "doctor": "compare the providers' machines with those that the bastion knows",
        "fsck": "check the bucket against every rule of the protocol",
        "restore": "restore a copy of root after a disaster",
        "demo": "run a demo on this machine: four jobs and a preemption",
    },
    "machines": {
        "cordon": "keep new jobs from starting on machines",
        "uncordon": "let new jobs start on machines again",
        "drain": "cordon machines, and report when their running jobs have ended",
        "machine": "check a machine, or remove Bastion from a host",
    },
    "the bastion's VM": {
        "create": "create the bastion's VM",
        "start": "start the bastion's VM again",
        "stop": "stop the bastion's VM without deleting it; jobs continue",
        "upgrade": "upgrade the bastion on its VM",
        "delete": "delete the bastion's VM; its bucket and machines remain",
    },
    "set up": {
        "config": "list, show, select or change profiles; check a bastion.toml",
        "auth": "log in to the cloud of the bucket",
        "setup": "prepare a bucket, its identities and their permissions",
        "completion": "print a shell completion script",
        "help": "show help for a verb, or a page of the documentation",
    },
}
"""The verbs and what each does, as the first page of help shows them."""

SUMMARIES = {verb: does for family in FAMILIES.values() for verb, does in family.items()}
"""What each verb does, in a line."""

ALIASES = {"ls": "list", "queue": "list"}

SEVERAL_VERBS = (*SUMMARIES, *ALIASES)
"""Every word that can come first."""

PAGES = {
    "launch": "your-first-launch",
    "run": "your-first-launch",
    "rerun": "code-and-reproducibility",
    "import": "come-from-another-system",
    "bundle": "code-and-reproducibility",
    "list": "your-first-launch",
    "show": "your-first-launch",
    "why": "read-a-refusal",
    "logs": "look-into-a-running-job",
    "fetch": "your-first-launch",
    "wait": "dependencies-and-notifications",
    "pool": "look-at-the-pool",
    "machines": "look-at-the-pool",
    "top": "look-at-the-pool",
    "web": "watch-it",
    "cordon": "look-after-machines",
    "uncordon": "look-after-machines",
    "drain": "look-after-machines",
    "machine": "look-after-machines",
    "config": "your-first-launch",
    "cancel": "stop-and-resume",
    "hold": "gangs-and-failures",
    "release": "gangs-and-failures",
    "exec": "look-into-a-running-job",
    "ssh": "look-into-a-running-job",
    "notebook": "look-into-a-running-job",
    "quota": "write-a-quota-file",
    "simulate": "choose-a-policy",
    "doctor": "a-vm-for-the-bastion",
    "serve": "a-vm-for-the-bastion",
    "create": "a-vm-for-the-bastion",
    "start": "a-vm-for-the-bastion",
    "stop": "a-vm-for-the-bastion",
    "upgrade": "a-vm-for-the-bastion",
    "delete": "a-vm-for-the-bastion",
    "fsck": "recover-a-bucket",
    "restore": "recover-a-bucket",
    "setup": "secure-a-bucket",
    "up": "tutorial",
    "down": "tutorial",
    "demo": "tutorial",
    "history": "who-used-what",
    "usage": "who-used-what",
    "query": "who-used-what",
}
"""The page to read next about a verb; every other verb is explained in `cli`."""
EVERY_VERB_PAGE = "cli"
