"""What a launch notifies, as it is written."""

from __future__ import annotations

from typing import Any

import pytest

from bastion.errors import SpecError
from bastion.records.coding.codec import decode, encode
from bastion.spec import Job, Launch, Notify, Process
from bastion.spec.notify import USUAL


def launch(*notify: Notify | str) -> Launch:
    """Return a launch that notifies them."""
    return Launch(name="l", jobs=(Job(processes=(Process(["true"]),)),), notify=notify)


def test_text_is_a_webhook_that_hears_the_usual() -> None:
    """A name or a URL alone; each counts once; all of it comes back from JSON."""
    made = launch("team", "https://a.example/x", Notify("team"), Notify("ops", on=["ended"]))
    assert made.notify == (
        Notify("team", on=USUAL),
        Notify("https://a.example/x"),
        Notify("ops", on=("ended",)),
    )
    assert decode(Launch, encode(made), key="k") == made


@pytest.mark.parametrize(
    ("to", "more", "problem"),
    [
        ("a b", {}, "notify.to: 'a b' is not a name"),
        ("ftp://h/x", {}, "notify.to: not a usable URL; write https://HOST/PATH"),
        ("https:///x", {}, "notify.to: not a usable URL"),
        ("https://u:p@h/x", {}, "notify.to: carries a user or a password; remove them"),
        ("https://h:0/x", {}, "notify.to: 0 is not a port; 1 to 65535"),
        ("https://h/x y", {}, "notify.to: not a usable URL"),
        ("https://h/\u00e4", {}, "notify.to: not a usable URL"),
        ("https://h/" + "x" * 3000, {}, "notify.to: longer than 2048 characters"),
        (
            "team",
            {"kind": "slack"},
            "notify.kind: team is the name of a webhook, whose kind admins set",
        ),
        ("team", {"on": ()}, "notify.on: empty; leave it out for the default events"),
        ("team", {"on": ("end",)}, "notify.on[0]: 'end' is unknown"),
        ("https://h/x", {"kind": "teams"}, "notify.kind: 'teams' is unknown"),
    ],
)
def test_what_cannot_be_told_is_refused(to: str, more: dict[str, Any], problem: str) -> None:
    """The error has the field and what is allowed."""
    with pytest.raises(SpecError) as caught:
        Notify(to, **more)
    assert problem in str(caught.value)


def test_too_many_are_refused() -> None:
    """The limit is named."""
    with pytest.raises(SpecError, match="notify: 11 is not allowed; at most 10"):
        launch(*(f"hook{n}" for n in range(11)))
