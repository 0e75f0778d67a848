"""JSON Schemas in requests: what strict mode refuses, and the least value that a schema allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Complain = Callable[[str], Exception]

# Keywords that strict mode doesn't permit, each of which the services name when they refuse it.
_NOT_PERMITTED = (
    "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
    "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties", "unevaluatedItems", "contains",
    "minContains", "maxContains", "uniqueItems", "prefixItems", "default", "minLength", "maxLength",
)  # fmt: skip
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_MOST_LEVELS = 10
_MOST_PROPERTIES = 5_000


def refuse_unstrict(schema: dict[str, Any], complain: Complain) -> None:
    """Raise what ``complain`` makes of the first thing that strict mode refuses in a schema."""
    if schema.get("type") != "object":
        raise complain(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {_shown(schema.get('type'))}'.")
    seen = _refuse(schema, (), complain)
    if seen > _MOST_PROPERTIES:
        raise complain(f"schema has {seen} properties, more than {_MOST_PROPERTIES}.")


def refuse_unusable(schema: dict[str, Any], complain: Complain) -> None:
    """Raise what ``complain`` makes of a function's parameters that no mode accepts."""
    if schema and schema.get("type") != "object":
        raise complain(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {_shown(schema.get('type'))}'.")
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise complain("'properties' is not an object.")
    for name, part in properties.items():
        if not isinstance(part, (dict, bool)):
            raise complain(f"In context=('properties', '{name}'), schema is not an object or boolean.")
        if isinstance(part, dict) and part.get("type") == "array" and "items" not in part and "prefixItems" not in part:
            raise complain(f"In context=('properties', '{name}'), array schema missing items.")


def instance(schema: Any, root: Any = None, depth: int = 0) -> Any:  # noqa: ANN401 - any JSON
    """Return the least value that a schema allows: required properties, first choices, empty lists, zero."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > _MOST_LEVELS:
        return None
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for inner in (_referred(schema, root), *(schema.get("anyOf") or ())[:1]):
        if inner is not None:
            return instance(inner, root, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or (kind is None and "properties" in schema):
        properties = schema.get("properties") or {}
        wanted = schema.get("required") or ()
        return {name: instance(part, root, depth + 1) for name, part in properties.items() if name in wanted}
    if kind == "array":
        return [instance(schema.get("items"), root, depth + 1)] * (schema.get("minItems") or 0)
    return _least(kind, schema)


def _least(kind: Any, schema: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    if kind in {"integer", "number"}:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        return max(low, 0) + (1 if schema.get("exclusiveMinimum") == max(low, 0) else 0)
    return {"boolean": False, "null": None}.get(kind, "") if isinstance(kind, str) else None


def _referred(schema: dict[str, Any], root: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return what a local reference points at; None when the schema has none."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    for part in reference[1:].split("/")[1:]:
        root = root.get(part) if isinstance(root, dict) else None
    return root


def _refuse(schema: Any, place: tuple[str, ...], complain: Complain) -> int:  # noqa: ANN401 - any JSON
    """Walk a schema and return how many properties it has."""
    where = f"In context={place}, " if place else ""
    if not isinstance(schema, dict):
        raise complain(f"{where}schema is not an object.")
    if len(place) > 4 * _MOST_LEVELS:
        raise complain(f"schema is nested deeper than {_MOST_LEVELS} levels.")
    for keyword in _NOT_PERMITTED:
        if keyword in schema:
            raise complain(f"{where}'{keyword}' is not permitted.")
    if not schema.keys() & {"type", "anyOf", "$ref", "enum", "const"}:
        raise complain(f"{where}schema must have a 'type' key.")
    _refuse_type(schema.get("type"), where, complain)
    seen = _refuse_object(schema, place, complain) if _is(schema, "object") else 0
    if _is(schema, "array"):
        if "items" not in schema:
            raise complain(f"{where}array schema missing items.")
        seen += _refuse(schema["items"], (*place, "items"), complain)
    for index, part in enumerate(schema.get("anyOf") or ()):
        seen += _refuse(part, (*place, "anyOf", str(index)), complain)
    for name, part in (schema.get("$defs") or {}).items():
        seen += _refuse(part, (*place, "$defs", name), complain)
    return seen


def _refuse_type(kind: Any, where: str, complain: Complain) -> None:  # noqa: ANN401 - any JSON
    for one in kind if isinstance(kind, list) else [kind]:
        if one is not None and (not isinstance(one, str) or one not in _TYPES):
            raise complain(f"{where}{_shown(one)} is not valid under any of the given schemas.")


def _refuse_object(schema: dict[str, Any], place: tuple[str, ...], complain: Complain) -> int:
    where = f"In context={place}, "
    if schema.get("additionalProperties") is not False:
        raise complain(f"{where}'additionalProperties' is required to be supplied and to be false.")
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        raise complain(f"{where}object schema missing properties.")
    required = schema.get("required")
    if not isinstance(required, list):
        required = []
    absent = [name for name in properties if name not in required]
    extra = [name for name in required if name not in properties]
    if absent or extra:
        fault = f"Missing '{absent[0]}'" if absent else f"Extra required key '{extra[0]}' supplied"
        rule = "'required' is required to be supplied and to be an array including every key in properties."
        raise complain(f"{where}{rule} {fault}.")
    return sum(1 + _refuse(part, (*place, "properties", name), complain) for name, part in properties.items())


def _is(schema: dict[str, Any], kind: str) -> bool:
    given = schema.get("type")
    return given == kind or (isinstance(given, list) and kind in given)


def _shown(value: object) -> str:
    return '"None"' if value is None else f'"{value}"'
