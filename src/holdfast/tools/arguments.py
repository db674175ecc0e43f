"""Tool arguments: one struct per tool gives both its JSON schema and its decoding."""

from typing import Any, TypeVar

import msgspec

from holdfast.core.turns.model import ToolSchema
from holdfast.core.turns.tool import Arguments, ToolFailed

T = TypeVar("T", bound=msgspec.Struct)


def make_schema(name: str, description: str, kind: type[msgspec.Struct]) -> ToolSchema:
    """A schema without what a model does not need: titles, references, nulls as defaults."""
    whole = msgspec.json.schema(kind)
    definitions = whole["$defs"]
    parameters = _inline_schema(definitions[kind.__name__], definitions)
    return ToolSchema(name=name, description=description, parameters=parameters)


def _inline_schema(part: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(part, list):
        return [_inline_schema(item, definitions) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inline_schema(definitions[part["$ref"].rpartition("/")[2]], definitions)
    schema = {
        key: _inline_schema(value, definitions) for key, value in part.items() if key != "title"
    }
    if "default" in schema and schema["default"] in (None, "", False, []):
        del schema["default"]
    if "enum" in schema:
        schema["type"] = "string"  # some providers ask for it
    if "anyOf" in schema:
        schema.update(next(option for option in schema.pop("anyOf") if option != {"type": "null"}))
    return schema


def decode(kind: type[T], arguments: Arguments) -> T:
    """The model's arguments as the tool's struct. A number in quotes is taken as a number."""
    try:
        return msgspec.convert(dict(arguments), kind, strict=False)
    except msgspec.ValidationError as error:
        fields = msgspec.structs.fields(kind)
        known = ", ".join(f"{field.name}{'' if field.required else '?'}" for field in fields)
        raise ToolFailed(f"wrong arguments: {error}. They are: {known}") from None
