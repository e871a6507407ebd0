"""The words that may stand first: verbs by family, their aliases, and the page about each."""

from __future__ import annotations

FAMILIES = {
    "submit": {
        "launch": "submit jobs",
        "run": "submit, follow the log, exit with the job's own code",
        "rerun": "submit the launch of a job again, with the same spec and code",
        "import": "print a job file of another system as a launch, in TOML",
        "bundle": "send code to the bucket and print its digest",
    },
    "see": {
        "list": "list active jobs: running first, then the queue",
        "show": "show everything known of jobs",
        "why": "say why jobs are in their state, and what would change it",
        "events": "show what happened to jobs, oldest first",
        "logs": "print what a job's processes printed",
        "fetch": "download what a job kept in BASTION_OUTPUT_DIR",
        "wait": "wait until jobs have ended; exit as they did",
        "pool": "show what each pool has and what is free; keep some of it ready",
        "machines": "show every machine and the jobs on it",
        "top": "show what every machine and device uses now, and for which job",
        "status": "show the bastion: its leader, the quota in force, problems",
        "web": "serve pages that show the pool, the queue and every job",
        "history": "list all jobs that ever ended, with what they held and cost",
        "usage": "sum up usage: device hours, waiting, waste, cost",
        "query": "ask the record of all that ended, in SQL",
    },
    "change": {
        "cancel": "end jobs, or all jobs of a launch",
        "hold": "keep waiting jobs from starting",
        "release": "let held jobs start; end the hold of a failed one",
        "prioritize": "give jobs another priority",
        "update": "change jobs that wait or run",
    },
    "enter": {
        "exec": "run a command beside the processes of a running job",
        "ssh": "open a shell on the machine of a running job",
        "notebook": "run Jupyter as a job and open the way to it",
    },
    "admin": {
        "up": "start a bastion on this machine, and its machines",
        "down": "end the bastion of this machine, and its machines",
        "serve": "run the bastion",
        "agent": "run the agent of a machine; pools start it by themselves",
        "quota": "show, check, compare or change the quota file",
        "simulate": "play jobs on a virtual clock, to compare policies and quota files",
        "doctor": "compare the machines of providers with those the bastion knows",
        "fsck": "check the bucket against every rule of the protocol",
        "restore": "restore a copy of root after a disaster",
        "demo": "play a demo on this machine: three jobs and a preemption",
    },
    "machines": {
        "cordon": "start no new job on machines",
        "uncordon": "let jobs start on machines again",
        "drain": "start no new job on machines, and let running ones finish",
        "machine": "check a machine; remove Bastion from a host",
    },
    "the bastion's VM": {
        "create": "make the bastion's own VM",
        "start": "start the bastion's VM again",
        "stop": "stop the bastion's VM, and keep it; jobs go on",
        "upgrade": "run the newest bastion on its VM",
        "delete": "delete the bastion's VM; its bucket and machines stay",
    },
    "set up": {
        "config": "list, show, choose or change profiles; check a bastion.toml",
        "auth": "log in to the cloud of the bucket",
        "setup": "print or make a bucket, its identities and their rights",
        "completion": "print the completion script of a shell",
        "help": "print the help of a verb, or a page of the documentation",
    },
}
"""The verbs and what each does, as the first page of help shows them."""

SUMMARIES = {verb: does for family in FAMILIES.values() for verb, does in family.items()}
"""What each verb does, in a line."""

ALIASES = {"ls": "list", "queue": "list"}

SEVERAL_VERBS = (*SUMMARIES, *ALIASES)
"""Every word that may stand first."""

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
