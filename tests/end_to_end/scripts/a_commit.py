"""The code of a repository, at the commit that is named on the command line."""

import sys

from bastion.compat import clusterfudge

launch = clusterfudge.Client().create_launch(
    clusterfudge.CreateLaunchRequest(
        deployment=clusterfudge.GitRepo(repo=sys.argv[1], branch="main", commit=sys.argv[2]),
        jobs=[
            clusterfudge.Job(
                short_name="git",
                replicas=1,
                processes=[clusterfudge.Process(command=["python3", "a.py"])],
            ),
        ],
    ),
)
print(launch.launch_id)
