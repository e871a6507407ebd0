"""The environment of agents on the bastion's own machine."""

from __future__ import annotations

from bastion.provider.agent_environment import agent_environment, has_own_credentials

BASTION = {
    "PATH": "/bin",
    "HOME": "/root",
    "https_proxy": "http://proxy",
    "BASTION_SECRET_TOKEN": "t",
    "GOOGLE_APPLICATION_CREDENTIALS": "/bastion.json",
    "AWS_ACCESS_KEY_ID": "bastion",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "eu",
    "DATABASE_PASSWORD": "hunter2",
    "BASTION_ROOT": "gs://b",
}


def test_agents_get_what_they_need_and_nothing_else() -> None:
    """They get the usual variables of a program, and no others of the bastion's."""
    given = agent_environment(BASTION)
    assert given["PATH"] == "/bin"
    assert given["https_proxy"] == "http://proxy"
    assert given["BASTION_SECRET_TOKEN"] == "t"
    assert "DATABASE_PASSWORD" not in given
    assert "BASTION_ROOT" not in given
    assert not has_own_credentials(BASTION)
    assert given["AWS_SECRET_ACCESS_KEY"] == "secret"


def test_agents_with_credentials_of_their_own_get_none_of_the_bastions() -> None:
    """A variable that begins with AGENT_ is an agent's; the bastion's own are not passed."""
    environ = {**BASTION, "AGENT_AWS_ACCESS_KEY_ID": "agent", "AGENT_AWS_SECRET_ACCESS_KEY": "own"}
    given = agent_environment(environ)
    assert has_own_credentials(environ)
    assert (given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"]) == ("agent", "own")
    assert "GOOGLE_APPLICATION_CREDENTIALS" not in given
    assert given["AWS_REGION"] == "eu"
    assert not any(name.startswith("AGENT_") for name in given)
