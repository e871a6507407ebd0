"""Every device that there is, until it is stopped; refused where they are taken."""

import sys

from bastion.compat import clusterfudge

queueing = clusterfudge.QueueingBehaviour(enqueue_if_cluster_busy="wait" in sys.argv)
launch = clusterfudge.Client().create_launch(
    clusterfudge.CreateLaunchRequest(
        name="all-of-it",
        queueing_behaviour=queueing if "wait" in sys.argv else None,
        jobs=[
            clusterfudge.Job(
                short_name="all",
                replicas=2,
                processes=[
                    clusterfudge.Process(
                        command=["sleep", "600"],
                        resource_requirements=clusterfudge.Resources(h100=8),
                    ),
                ],
            ),
        ],
    )
)
print(launch.launch_id)
