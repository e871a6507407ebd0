"""One process with two devices."""

from bastion.compat import clusterfudge

client = clusterfudge.Client()
launch = client.create_launch(
    clusterfudge.CreateLaunchRequest(
        name="two devices",
        description="How many are seen?",
        queueing_behaviour=clusterfudge.QueueingBehaviour(enqueue_if_cluster_busy=True),
        jobs=[
            clusterfudge.Job(
                short_name="experiment",
                replicas=1,
                processes=[
                    clusterfudge.Process(
                        command=["sh", "-c", "echo devices $CUDA_VISIBLE_DEVICES"],
                        resource_requirements=clusterfudge.Resources(h100=2),
                    ),
                ],
            ),
        ],
    )
)
print(launch.launch_id)
