"""Holds requests and answers against Mattermost's own OpenAPI description, where a copy of it is on the machine.

The description is looked for in the folder that `BOXMAKER_MATTERMOST_API` names, or beside the checkout, in
`../shared/data/mattermost-api-v4`. It is Mattermost's; no part of it is in this project.
"""

import functools
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import jsonschema
import yaml

from tests.fakes.mattermost.rest import Answer, Request

_FOLDER: Final = Path(__file__).parents[4] / "shared/data/mattermost-api-v4"
_PATHS: Final = ("bots", "channels", "files", "posts", "reactions", "status", "system", "users")
_ANYWHERE: Final = frozenset({"401", "404", "429", "500", "502", "503"})
"""Statuses that any request may meet; the description names them for some only."""
_NOT_SO: Final = frozenset({("PUT", "/api/v4/posts/{post_id}/patch", "props")})
"""Where the description is wrong: a text, it says, and the server and its clients take an object."""
_ALSO: Final = frozenset({("POST", "/api/v4/users/login", "200")})
"""Statuses that the server gives where the description has another (201)."""

Map = dict[str, Any]


class Operation(NamedTuple):
    """What the description says of a method and a path."""

    method: str
    path: str
    pattern: re.Pattern[str]
    says: Map


class Description:
    """The description."""

    def __init__(self, folder: Path) -> None:
        texts = [(folder / f"{name}.yaml").read_text() for name in ("introduction", *_PATHS, "definitions")]
        # The files are the pieces of one; the first ends with `paths:`.
        whole = yaml.load("\n".join(texts), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._components: Map = whole["components"]
        self.operations = [
            Operation(method.upper(), path, _pattern(path), says)
            for path, methods in whole["paths"].items()
            for method, says in methods.items()
        ]

    def find(self, method: str, path: str) -> Operation | None:
        """The operation of a method and a path; one without a parameter comes before one with."""
        found = [one for one in self.operations if one.method == method and one.pattern.fullmatch(path)]
        return min(found, key=lambda one: one.path.count("{")) if found else None

    def problems(self, request: Request, answer: Answer) -> Iterator[str]:
        """What a request or its answer has that is not as described."""
        operation = self.find(request.method, request.path)
        if operation is None:
            yield "there is no such operation"
            return
        if answer.status < 400:
            yield from self._of_request(operation, request)
        yield from self._of_answer(operation, answer)

    def _of_request(self, operation: Operation, request: Request) -> Iterator[str]:
        parameters = {one["name"]: one for one in operation.says.get("parameters", []) if one["in"] == "query"}
        for name, one in parameters.items():
            if one.get("required") and name not in request.query:
                yield f"the parameter {name} is missing"
        for name, text in request.query.items():
            if name not in parameters:
                yield f"the parameter {name} is not described"
            elif parameters[name]["schema"]["type"] == "integer" and not text.isdigit():
                yield f"the parameter {name} is no number"
        content = operation.says.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            schema = content["application/json"]["schema"]
            given = {name for _, path, name in _NOT_SO if path == operation.path}
            body = request.json
            yield from self._fits(
                {key: value for key, value in body.items() if key not in given} if given else body,
                schema,
                "the request",
            )
        elif request.body and not content:
            yield "the request has a body"

    def _of_answer(self, operation: Operation, answer: Answer) -> Iterator[str]:
        status = str(answer.status)
        described = operation.says["responses"].get(status)
        if described is None:
            # That a file's content is an answer goes without saying there.
            usual = status in _ANYWHERE or (operation.method, operation.path, status) in _ALSO
            if not usual and not isinstance(answer.value, bytes):
                yield f"the status {status} is not described"
            return
        if "$ref" in described:
            described = self._components["responses"][described["$ref"].rpartition("/")[2]]
        schema = described.get("content", {}).get("application/json", {}).get("schema")
        if schema is not None and not isinstance(answer.value, bytes):
            yield from self._fits(answer.value, schema, "the answer")

    def _fits(self, value: Any, schema: Map, what: str) -> Iterator[str]:
        validator = jsonschema.Draft202012Validator({**schema, "components": self._components})
        for error in validator.iter_errors(value):
            yield f"{what}: {error.json_path}: {error.message[:200]}"


@functools.cache
def description() -> Description | None:
    """The description, if it is here."""
    folder = Path(os.environ.get("BOXMAKER_MATTERMOST_API") or _FOLDER)
    return Description(folder) if (folder / "definitions.yaml").exists() else None


def problems(exchanges: Iterable[tuple[Request, Answer]]) -> list[str]:
    """What requests and answers have that is not as described; nothing where there is no description."""
    found = description()
    if found is None:
        return []
    return [
        f"{request.method} {request.path}: {problem}"
        for request, answer in exchanges
        for problem in found.problems(request, answer)
    ]


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", re.escape(path)))
