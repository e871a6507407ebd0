"""Only the machine that is named on the command line."""

import sys

from bastion.compat import clusterfudge

launch = clusterfudge.Client().create_launch(
    clusterfudge.CreateLaunchRequest(
        hostnames=[sys.argv[1]],
        jobs=[
            clusterfudge.Job(
                short_name="pet",
                replicas=1,
                processes=[clusterfudge.Process(command=["true"])],
            )
        ],
    )
)
print(launch.launch_id)
