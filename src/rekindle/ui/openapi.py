"""The OpenAPI document, made of the table of routes and of the classes of their answers."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from rekindle.monitoring.views import ErrorView
from rekindle.ui.actions import VERBS, ActionAnswer, ActionBody
from rekindle.ui.api import PREFIX, ROUTES

Json = dict[str, Any]


class ErrorAnswer(msgspec.Struct):
    """The answer where something is wrong."""

    error: ErrorView


@cache  # a server starts without it, and few readers ask for it
def encoded(version: str) -> bytes:
    """Return `document` as JSON."""
    return msgspec.json.encode(document(version))


def document(version: str) -> Json:
    """Return the OpenAPI document, 3.1."""
    kinds = [*(route.answer for route in ROUTES), ActionBody, ActionAnswer, ErrorAnswer]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    body, action, error = schemas[-3:]
    wrong = {"description": "Something is wrong: a code, a sentence, what to do next.", "content": _json(error)}
    paths: dict[str, Json] = {}
    for route, schema in zip(ROUTES, schemas, strict=False):
        named = [{"name": one.name, "in": "query", "description": one.what} for one in route.parameters]
        paths[PREFIX + route.path] = {
            "get": {
                "summary": route.what,
                "parameters": [
                    *_in_path(route.path),
                    *({**one, "schema": {"type": "integer"}} for one in named),
                ],
                "responses": {"200": {"description": "OK", "content": _json(schema)}, "default": wrong},
            }
        }
    answers = {"200": {"description": "Answered.", "content": _json(action)}, "default": wrong}
    for verb in VERBS:
        path = f"/jobs/{{job}}/{verb}"
        paths[PREFIX + path] = {
            "post": {
                "summary": f"Ask for what `rekindle {verb if verb != 'drain' else 'stop --drain'}` asks for.",
                "parameters": _in_path(path),
                "requestBody": {"content": _json(body)},
                "responses": {**answers, "202": {"description": "Not answered yet.", "content": _json(action)}},
            }
        }
    path = "/jobs/{job}/requests/{request}"
    paths[PREFIX + path] = {
        "get": {"summary": "What became of an action.", "parameters": _in_path(path), "responses": answers}
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Rekindle", "version": version},
        "paths": paths,
        "components": {"schemas": components},
    }


def _json(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _in_path(path: str) -> list[Json]:
    kinds = {"{job}": ("job", "string"), "{id}": ("id", "integer"), "{request}": ("request", "string")}
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": kind}}
        for part, (name, kind) in kinds.items()
        if part in path
    ]
