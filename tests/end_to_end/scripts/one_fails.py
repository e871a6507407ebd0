"""Three replicas of two processes: one process fails, and with it everything."""

from bastion.compat import clusterfudge

launch = clusterfudge.Client().create_launch(
    clusterfudge.CreateLaunchRequest(
        name="one-fails",
        deployment=clusterfudge.LocalDir(),
        jobs=[
            clusterfudge.Job(
                short_name="python",
                replicas=3,
                replica_failure_behaviour=clusterfudge.OnReplicaFailureOtherReplicasAreStopped(),
                processes=[
                    clusterfudge.Process(command=["python3", "fails.py"]),
                    clusterfudge.Process(command=["python3", "goes_on.py"]),
                ],
            ),
        ],
    ),
)
print(launch.launch_id)
