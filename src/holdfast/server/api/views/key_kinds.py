"""What a key of the configuration holds, for whoever lets a person change it."""

from enum import StrEnum

from msgspec import inspect

from holdfast.config.schema import Node


class KeyKind(StrEnum):
    BOOLEAN = "switch"
    INTEGER = "whole"
    NUMBER = "number"
    CHOICE = "choice"
    TEXT = "text"
    SECRET = "secret"  # a reference to one
    LIST = "list"  # of texts
    TABLES = "tables"  # a list of those: it is set as a whole


def kind_of(node: Node, *, secret: bool) -> KeyKind:
    match node:
        case inspect.BoolType():
            return KeyKind.BOOLEAN
        case inspect.IntType():
            return KeyKind.INTEGER
        case inspect.FloatType():
            return KeyKind.NUMBER
        case inspect.EnumType():
            return KeyKind.CHOICE
        case inspect.VarTupleType(item_type=inspect.StrType()):
            return KeyKind.LIST
        case inspect.VarTupleType():
            return KeyKind.TABLES
    return KeyKind.SECRET if secret else KeyKind.TEXT


def choices_of(node: Node) -> list[str]:
    if isinstance(node, inspect.EnumType):
        return [str(member.value) for member in node.cls]
    return []
