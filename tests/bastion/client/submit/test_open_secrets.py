"""Which variables of a launch cause a warning about secrets in the bucket."""

from __future__ import annotations

import pytest

from bastion.client.submit.open_secrets import open_secret_warnings
from bastion.spec import Job, Launch, Process

KEY = "0123456789/+abcdef"


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"WANDB_API_KEY": KEY, "HF_TOKEN": KEY}, "HF_TOKEN, WANDB_API_KEY"),
        ({"AWS_SECRET_ACCESS_KEY": KEY}, "AWS_SECRET_ACCESS_KEY"),
        ({"password": KEY}, "password"),
        ({"EOS_TOKEN": "</s>", "MAX_TOKENS": KEY, "TOKENIZER": KEY, "SORT_KEY": KEY}, ""),
        ({"HF_TOKEN": "/secrets/research/hf", "API_KEY": "{key_of_the_task}"}, ""),
    ],
)
@pytest.mark.parametrize("of_the_job", [True, False])
def test_a_variable_that_is_named_as_a_secret_is_told(
    env: dict[str, str], told: str, of_the_job: bool
) -> None:
    """Only its name counts: the value is in no warning."""
    process = Process(["true"], env={} if of_the_job else env)
    job = Job(processes=[process], env=env if of_the_job else {})
    warnings = open_secret_warnings(Launch(name="a", jobs=[job]))
    assert len(warnings) == bool(told)
    for warning in warnings:
        assert warning.startswith(f"{told}: stored in the bucket in plain text, for all")
        assert KEY not in warning
