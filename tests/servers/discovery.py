"""Google's own descriptions of its APIs, with which requests and answers are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import googleapiclient

from tests.servers.gcs.answers import Answer
from tests.servers.gcs.api import Request

_OTHERS = {"userProject", "uploadType", "upload_id", "upload_protocol"}
"""Parameters of Cloud Storage that its description does not contain."""
_TYPES = {"string": str, "boolean": bool, "integer": int, "object": dict, "array": list}
_FORMATS = {
    "int64": r"-?\d+",
    "uint64": r"\d+",
    "date-time": r"[-\dT:.]+Z",
    "google-datetime": r"[-\dT:.]+Z",
    "google-duration": r"\d+(\.\d{1,9})?s",
}


@dataclass(frozen=True, kw_only=True)
class Called:
    """A method of an API and the parameters of its path."""

    id: str
    method: Mapping[str, Any]
    path: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Description:
    """One API, as google-api-python-client carries it."""

    document: Mapping[str, Any]

    def called(self, verb: str, path: str) -> Called | None:
        """Return the method that a request calls; None if there is none."""
        for method, verbs, pattern in self._routes:
            found = pattern.fullmatch(path)
            if found is not None and verb in verbs:
                return Called(id=method["id"], method=method, path=found.groupdict())
        return None

    @cached_property
    def _routes(self) -> list[tuple[Mapping[str, Any], set[str], re.Pattern[str]]]:
        return [
            (method, verbs, re.compile(pattern))
            for method in _methods(self.document)
            for verbs, pattern in self._places(method)
        ]

    def query_problems(self, called: Called, query: Mapping[str, str]) -> list[str]:
        """Return how the parameters of a request differ from the description."""
        given = called.method.get("parameters", {})
        known = {name for name, p in given.items() if p["location"] == "query"}
        every = known | self.document["parameters"].keys() | _OTHERS
        wrong = [f"{called.id}: unknown parameter {name!r}" for name in query.keys() - every]
        for name, p in given.items():
            if p.get("required") and name not in {*called.path, *query}:
                wrong.append(f"{called.id}: parameter {name!r} is missing")
        return wrong

    def body_problems(self, called: Called, body: Mapping[str, Any] | None) -> list[str]:
        """Return how the body of a request differs from the description."""
        if ("request" in called.method) != (body is not None):
            return [f"{called.id}: a body is {'missing' if body is None else 'too much'}"]
        if body is None:
            return []
        schema = called.method["request"]["$ref"]
        return list(self._problems(schema, {"$ref": schema}, body, called.id))

    def answer_problems(self, called: Called, answer: Any) -> list[str]:
        """Return how the answer of a method differs from the description."""
        schema = called.method["response"]["$ref"]
        return list(self._problems(schema, {"$ref": schema}, answer))

    def fields_problems(self, called: Called, tree: Any) -> list[str]:
        """Return requested fields that the answer cannot have."""
        return list(self._unknown({"$ref": called.method["response"]["$ref"]}, tree, "fields"))

    def _places(self, method: Mapping[str, Any]) -> Iterator[tuple[set[str], str]]:
        """Yield the verbs and path patterns of a method."""
        base = "/" + self.document["servicePath"]
        given = method.get("parameters", {})

        def part(found: re.Match[str]) -> str:
            name = found[2]
            any_text = ".+" if found[1] else "[^/]+"
            pattern = given[name].get("pattern", any_text).strip("^$")
            return f"(?P<{name}>{pattern if found[1] else any_text})"

        path = re.sub(r"\{(\+?)(\w+)\}", part, method["path"])
        yield {method["httpMethod"]}, base + path
        if self.document["name"] == "storage":
            yield {method["httpMethod"]}, "/download" + base + path
            for protocol in method.get("mediaUpload", {}).get("protocols", {}).values():
                place = re.sub(r"\{(\+?)(\w+)\}", part, protocol["path"])
                yield {method["httpMethod"], "PUT", "DELETE"}, place

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" not in schema:
            return schema
        found: Mapping[str, Any] = self.document["schemas"][schema["$ref"]]
        return found

    def _problems(
        self, path: str, schema: Mapping[str, Any], value: Any, sent_to: str = ""
    ) -> Iterator[str]:
        """Yield how a value differs from a schema; `sent_to` is the method of a request's value."""
        schema = self._resolved(schema)
        kind = schema["type"]
        if kind == "any":
            return
        is_of_kind = isinstance(value, _TYPES[kind])
        if not is_of_kind or (kind == "integer" and value is True):
            yield f"{path}: {value!r} is no {kind}"
            return
        if kind == "string":
            yield from _text_problems(path, schema, value)
        if kind == "array":
            for each in value:
                yield from self._problems(f"{path}[]", schema["items"], each, sent_to)
        if kind != "object":
            return
        known = schema.get("properties", {})
        for name, inner in value.items():
            found = known.get(name) or schema.get("additionalProperties")
            if found is None:
                yield f"{path}.{name}: not in the description"
            elif sent_to and found.get("readOnly"):
                yield f"{path}.{name}: is only ever answered"
            else:
                yield from self._problems(f"{path}.{name}", found, inner, sent_to)
        for name, found in known.items():
            wanted_by = found.get("annotations", {}).get("required", ())
            if sent_to in wanted_by and name not in value:
                yield f"{path}.{name}: is missing"

    def _unknown(self, schema: Mapping[str, Any], tree: Any, path: str) -> Iterator[str]:
        if tree is True:
            return
        schema = self._resolved(schema)
        if schema["type"] == "array":
            yield from self._unknown(schema["items"], tree, path)
            return
        for name, inner in tree.items():
            found = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if found is None:
                yield f"{path}/{name}: not in the description"
            else:
                yield from self._unknown(found, inner, f"{path}/{name}")


@cache
def description(api: str = "storage.v1") -> Description:
    """Return the description of `api`, such as `compute.v1`."""
    folder = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"
    return Description(document=json.loads((folder / f"{api}.json").read_text()))


def problems(request: Request, answer: Answer) -> list[str]:
    """Return how this exchange with Cloud Storage differs from the description."""
    storage = description()
    called = storage.called(request.method, request.path)
    if called is None:
        return [f"{request.method} {request.path}: no such method"]
    found = storage.query_problems(called, request.query)
    if answer.status >= 400 and not request.media and answer.status != 499:
        return found + error_problems(answer.status, json.loads(answer.body))
    if answer.status == 200 and answer.body and not request.media and "response" in called.method:
        return found + storage.answer_problems(called, json.loads(answer.body))
    if answer.status == 204 and "response" in called.method:
        found.append(f"{called.id}: answered nothing instead of {called.method['response']}")
    return found


def request_problems(
    verb: str, path: str, query: dict[str, str], body: dict[str, Any] | None
) -> list[str]:
    """Return how this request to Cloud Storage differs from the description."""
    called = description().called(verb, path)
    if called is None:
        return [f"{verb} {path}: no such method"]
    return description().query_problems(called, query) + description().body_problems(called, body)


def error_problems(status: int, body: dict[str, Any]) -> list[str]:
    """Return how an error differs from the ones of Google's older APIs, which list reasons."""
    error = body["error"]
    wrong = [f"error without {name}" for name in ("code", "message", "errors") if name not in error]
    if error["code"] != status:
        wrong.append(f"error code {error['code']} under status {status}")
    for one in error.get("errors", ()):
        missing = {"domain", "reason", "message"} - one.keys()
        wrong += [f"error detail without {name}" for name in missing]
    return wrong


def _methods(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from node.get("methods", {}).values()
    for resource in node.get("resources", {}).values():
        yield from _methods(resource)


def _text_problems(path: str, schema: Mapping[str, Any], value: str) -> Iterator[str]:
    pattern = _FORMATS.get(schema.get("format", ""), schema.get("pattern"))
    if pattern is not None and not re.fullmatch(pattern, value):
        yield f"{path}: {value!r} does not match {pattern}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {', '.join(schema['enum'])}"
