"""The client for EC2: Amazon's own, which sends each call once and with a deadline."""

from __future__ import annotations

from typing import Any

from bastion.errors import ProviderError, ProviderRefusedError

CONNECT_S = 5.0
ANSWER_S = 60.0
"""Longest time EC2 may be silent within one call; a large batch is answered within 30 seconds."""


def account_in_use(region: str) -> str:
    """
    Return the account number of this process's credentials; empty if it cannot be queried.

    Amazon answers this query for everyone: it requires no permission.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        sts = boto3.session.Session().client("sts", region_name=region, config=_config())
        return str(sts.get_caller_identity()["Account"])
    except (BotoCoreError, ClientError, OSError, KeyError, ValueError):
        return ""


def client(region: str) -> Any:
    """
    Return an EC2 client that sends each call once, with the credentials of this process.

    Raises:
        ProviderError: boto3 is not installed, or its settings are wrong.
    """
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise ProviderRefusedError(
            f"a pool of provider ec2 needs boto3: {error}",
            hint="run: pip install 'bastion-orchestrator[aws]'",
        ) from error
    try:
        return boto3.session.Session().client("ec2", region_name=region, config=_config())
    except (BotoCoreError, ValueError) as error:
        raise _unopened(error) from error


def _config() -> Any:
    from botocore.config import Config

    return Config(
        connect_timeout=CONNECT_S,
        read_timeout=ANSWER_S,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )


def _unopened(error: Exception) -> ProviderError:
    return ProviderRefusedError(f"no client of EC2: {error}", hint="check ~/.aws/config")
