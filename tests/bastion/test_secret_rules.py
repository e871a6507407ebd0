"""Which users may request which secrets: denied, unless a rule says otherwise."""

from __future__ import annotations

import pytest

from bastion.errors import SpecError
from bastion.secret_rules import Denied, SecretRule, SecretRules
from bastion.spec import Secret

RULES = SecretRules(
    named={
        "HF_TOKEN": SecretRule(source="gcp:projects/acme/secrets/hf", projects=("vision", "nlp")),
        "WANDB": SecretRule(source="env:WANDB", projects=("*",)),
    },
    sources=(SecretRule(source="gcp:projects/acme/secrets/vision-*", projects=("vision",)),),
)


def why(rules: SecretRules, project: str, secret: Secret) -> str:
    """Return why it is denied."""
    found = rules.source_of(project, secret)
    assert isinstance(found, Denied)
    return found.why


def test_a_declared_name_has_its_source() -> None:
    """A name means the source in its rule, for the projects in its rule."""
    assert RULES.source_of("vision", Secret("HF_TOKEN")) == "gcp:projects/acme/secrets/hf"
    assert RULES.source_of("anyone", Secret("WANDB")) == "env:WANDB"
    assert why(RULES, "ads", Secret("HF_TOKEN")) == (
        "HF_TOKEN is not for project ads; it may ask for WANDB"
    )


def test_an_undeclared_name_gets_the_nearest_as_hint() -> None:
    """For a typo, the hint is the nearest name that this project may request."""
    assert why(RULES, "vision", Secret("HF_TOKN")) == (
        "HF_TOKN is not declared; did you mean HF_TOKEN?"
    )
    assert "HF_TOKEN" not in why(RULES, "ads", Secret("HF_TOKN")).removeprefix("HF_TOKN")


@pytest.mark.parametrize(
    "source",
    [
        "gcp:projects/acme/secrets/hf",
        "gcp:projects/acme/secrets/vision-a/versions/3",
        "gcp:projects/evil/secrets/vision-a",
        "env:WANDB",
        "file:vision/x",
    ],
)
def test_a_named_source_needs_a_rule_for_it(source: str) -> None:
    """A pattern matches exactly what it spells, and nothing below or beside that."""
    assert source in why(RULES, "vision", Secret("MINE", source=source))


def test_a_source_that_a_rule_covers_is_granted() -> None:
    """A project may name the sources of its rules, and a name with its declared source."""
    mine = Secret("MINE", source="gcp:projects/acme/secrets/vision-a")
    assert RULES.source_of("vision", mine) == mine.source
    assert isinstance(RULES.source_of("nlp", mine), Denied)
    assert RULES.source_of("x", Secret("WANDB", source="env:WANDB")) == "env:WANDB"
    assert isinstance(RULES.source_of("x", Secret("WANDB", source="env:OTHER")), Denied)


def test_without_rules_a_project_has_its_own_folder() -> None:
    """Without rules, a project may only have the files of its own folder on the machine."""
    rules = SecretRules()
    assert rules.source_of("vision", Secret("A")) == "file:vision/A"
    assert rules.source_of("vision", Secret("A", source="file:vision/b/c")) == "file:vision/b/c"
    for source in ("file:nlp/A", "file:visionary/A", "env:A", "aws:A"):
        assert "file:vision/..." in why(rules, "vision", Secret("A", source=source))


def test_a_rule_names_its_projects_and_a_good_source() -> None:
    """A rule without projects is an error, and so is one with a malformed source."""
    with pytest.raises(SpecError) as caught:
        SecretRules(
            named={"A-B": SecretRule(source="etc:x", projects=())},
            sources=(SecretRule(source="file:/etc/*", projects=("*",)),),
        )
    paths = [problem.split(": ")[0] for problem in caught.value.problems]
    assert paths == [
        "secrets.A-B.projects",
        "secrets.A-B.name",
        "secrets.A-B.source",
        "secret_sources.0.source",
    ]
