"""Only machines of one cluster and shard; nothing is asked of them."""

from bastion.compat import clusterfudge


def main() -> None:
    launch = clusterfudge.Client().create_launch(
        clusterfudge.CreateLaunchRequest(
            cluster="primary",
            shard="rl",
            jobs=[
                clusterfudge.Job(
                    short_name="where",
                    replicas=2,
                    processes=[
                        clusterfudge.Process(
                            command=["sh", "-c", "echo in $CLUSTERFUDGE_REPLICA_INDEX"]
                        )
                    ],
                )
            ],
        )
    )
    print(launch.launch_id)


if __name__ == "__main__":
    main()
