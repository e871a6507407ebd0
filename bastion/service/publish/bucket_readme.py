"""
The README of a bucket: what is where, for people who open it without Bastion.

It is written once, when a bastion first leads, and never changed: an admin can edit or delete it.
"""

from __future__ import annotations

from bastion.errors import ConflictError, NotFoundError, StoreError
from bastion.records.keys import layout
from bastion.store import ObjectStore

TEXT = """\
# A Bastion bucket

Everything that this bastion knows is here, as text. The folders:

project-quotas/   who may hold how much (admins edit it)
config/           pools, secrets, webhooks (admins edit it)
launches/         what was submitted: launches/PROJECT/LAUNCH/spec.json has the command
jobs/             how jobs ended: jobs/PROJECT/JOB/result.json, its "text" says why
history/          every attempt that ended, by day, as Parquet: any program reads it
logs/             what jobs printed: logs/PROJECT/JOB/a1/r0/h0/p0/BYTE.log
output/           what jobs kept in BASTION_OUTPUT_DIR; bastion fetch JOB downloads it
bundles/          the code of launches, by its digest
view/             what bastion list, status and pool show
state/            the state of the bastion: root.json is the truth, state/log/ has the events
inbox/, results/  requests of users, and the answers to them
run/, go/, instructions/, machines/, usage/   messages between bastion and machines

In a path of a log, a1 is the first attempt, r0 the first replica, h0 its first host, p0 the first
process there; the file is named by the offset of its first byte. `cat` of all of them, in the order
of their names, is what the process printed. logs/_bastion/ is the bastion's own log.

Change nothing in state/, run/, go/, instructions/, machines/, usage/ and inbox/ manually. With
Bastion: bastion list --all, bastion show JOB, bastion logs JOB, bastion fsck.
"""


def write_readme(store: ObjectStore) -> None:
    """Write the README if there is none; a store that refuses it has none."""
    try:
        store.read(layout.README)
    except NotFoundError:
        try:
            store.create(layout.README, TEXT.encode())
        except (ConflictError, StoreError):
            return
    except StoreError:
        return
