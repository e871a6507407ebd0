"""Which variables of a launch cause a warning about secrets in the bucket."""

from __future__ import annotations

import pytest

from bastion.client.submit.open_secrets import open_secret_warnings, without_secrets
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


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["python3", "a.py", "--api_key=sk-0123456789ab"], "--api_key"),
        (["python3", "a.py", "--hf-token", "hf_0123456789"], "--hf-token"),
        ("export HF_TOKEN='hf_0123456789' && python3 a.py", "HF_TOKEN"),
        ("export HF_TOKEN=hf_0123456789; python3 a.py", "HF_TOKEN"),
        ("PASSWORD='one two 0123456789' python3 a.py", "PASSWORD"),
        (["python3", "a.py", "--api_key=$API_KEY_OF_MINE", "--password=/run/password"], ""),
        (["python3", "a.py", "--token", "--another-long-flag"], ""),
        (["python3", "a.py", "--max_token=4096", "--lr=0.1"], ""),
        (["python3", "a.py", "--tokenizer=a-long-name-of-one"], ""),
    ],
)
def test_a_flag_that_is_named_as_a_secret_is_told(command: list[str] | str, told: str) -> None:
    """A command is as open as a variable; the warning has the flag, and never the value."""
    process = Process(command, shell=isinstance(command, str))
    warnings = open_secret_warnings(Launch(name="a", jobs=[Job(processes=[process])]))
    assert [warning.partition(" in a command: ")[0] for warning in warnings] == [told][: bool(told)]
    assert "0123456789" not in "".join(warnings)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["a.py", "--api_key=sk-0123456789ab", "x"], ["a.py", "--api_key=***", "x"]),
        (["a.py", "--hf-token", "hf_0123456789"], ["a.py", "--hf-token", "***"]),
        (["--env=HF_TOKEN=hf_0123456789"], ["--env=HF_TOKEN=***"]),
        (["--env", "HF_TOKEN=hf_0123456789=="], ["--env", "HF_TOKEN=***"]),
        (["export HF_TOKEN='hf_0123456789' && ls"], ["export HF_TOKEN='***' && ls"]),
        (["--password=open 'sesame'; now"], ["--password=***"]),
        (["--env=DB_PASSWORD=open sesame; now"], ["--env=DB_PASSWORD=***"]),
        (["--env", "DB_PASSWORD=open sesame; now"], ["--env", "DB_PASSWORD=***"]),
        (["export PASSWORD='open; sesame' A=1"], ["export PASSWORD='***' A=1"]),
        (["--setup=export HF_TOKEN=hf_0123456789"], ["--setup=export HF_TOKEN=***"]),
        (["a --env=HF_TOKEN=hf_0123456789 b"], ["a --env=HF_TOKEN=*** b"]),
        (["--secret=WANDB_API_KEY", "--secret", "HF_TOKEN_2"],) * 2,
        (["--secret=HF_TOKEN=key-of-the-vault"],) * 2,
        (["--secret=0123456789ab"], ["--secret=***"]),
        (["--max_token=4096", "--out=/a/b=c"],) * 2,
        ([], []),
    ],
    ids=[
        *("flag", "two words", "variable", "variable apart", "shell"),
        *("flag with spaces", "variable with spaces", "variable apart with spaces", "quoted"),
        *("shell in a flag", "variable in a flag in a shell"),
        *("name of a secret", "source of a secret", "a secret", "none", "empty"),
    ],
)
def test_a_recorded_command_line_has_no_secrets(words: list[str], shown: list[str]) -> None:
    """Everything else of it is recorded as it was typed."""
    assert without_secrets(words) == tuple(shown)
