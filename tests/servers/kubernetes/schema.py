"""Kubernetes' own published schemas, in which no field may be unknown."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

VERSION = "1.37.0"
_FILES = {
    "Pod": "pod-v1",
    "PodList": "podlist-v1",
    "EventList": "eventlist-v1",
    "Status": "status-meta-v1",
    "DeleteOptions": "deleteoptions-meta-v1",
    "SelfSubjectAccessReview": "selfsubjectaccessreview-authorization-v1",
}


def problems(said: dict[str, Any]) -> list[str]:
    """Return what is wrong with an object of the API, in the words of its schema."""
    found = _validator(_FILES[said["kind"]]).iter_errors(said)
    return [f"{'.'.join(map(str, each.absolute_path))}: {each.message[:300]}" for each in found]


@cache
def _validator(file: str) -> Draft202012Validator:
    folder = files("kubernetes_validate") / f"kubernetes-json-schema/v{VERSION}-local-strict"
    schema, shared = (
        Resource.from_contents(json.loads((folder / f"{name}.json").read_text()))
        for name in (file, "_definitions")
    )
    return Draft202012Validator(schema.contents, registry=shared @ (schema @ Registry()))
