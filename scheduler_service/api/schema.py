"""The API in OpenAPI's words: served, and exported for the TypeScript types.

`python -m scheduler_service.api.schema` writes it to standard output.
"""

from __future__ import annotations

import json
import sys
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from scheduler_service.api.bodies import BODIES
from scheduler_service.api.shapes import GIVEN
from scheduler_service.ports import SchedulerPort

_NAMED: tuple[type, ...] = (*BODIES, *GIVEN)
_BEARER = {"bearer": {"type": "http", "scheme": "bearer"}}


def install(app: FastAPI) -> None:
    """Make `app.openapi()` tell bodies, problems and authentication too."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(_described(app))
        return made

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI's documented way to extend it


def _described(app: FastAPI) -> dict[str, Any]:
    described = get_openapi(
        title=app.title,
        version=app.version,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    components = described.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name, schema in _schemas_of(_NAMED).items():
        schemas.setdefault(name, schema)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = _BEARER
    described["security"] = [{"bearer": []}]
    problem = {
        "description": "A refusal in words",
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        },
    }
    for path in described["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = problem
    described["components"]["schemas"] = dict(sorted(schemas.items()))
    return described


def _schemas_of(kinds: tuple[type, ...]) -> dict[str, Any]:
    mode: JsonSchemaMode = "validation"
    inputs = [(kind.__name__, mode, TypeAdapter(kind).core_schema) for kind in kinds]
    generator = GenerateJsonSchema(ref_template="#/components/schemas/{model}")
    _, definitions = generator.generate_definitions(cast(Any, inputs))
    return cast(dict[str, Any], definitions)


def document() -> dict[str, Any]:
    """Return the OpenAPI document, made without a service."""
    from scheduler_service.api.app import create_app

    no_service = cast(SchedulerPort, None)  # the routes are described, never called
    return create_app(no_service, ()).openapi()


def export() -> str:
    """Return the OpenAPI document as text that is the same for the same routes."""
    return json.dumps(document(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(export())
