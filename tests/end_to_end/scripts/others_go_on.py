"""Three replicas, of which the first fails: the others end as they would have."""

from bastion.compat import clusterfudge

launch = clusterfudge.Client().create_launch(
    clusterfudge.CreateLaunchRequest(
        name="others-go-on",
        jobs=[
            clusterfudge.Job(
                short_name="python",
                replicas=3,
                processes=[
                    clusterfudge.Process(
                        command=["sh", "-c", "test $BASTION_REPLICA_INDEX != 0 && echo done"]
                    ),
                ],
            ),
        ],
    ),
)
print(launch.launch_id)
