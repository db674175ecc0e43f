"""Arithmetic: whole numbers inside `$((…))`, where all that is in it is known."""

from typing import TYPE_CHECKING

from holdfast.tools.shell.shell import ShellState

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_DEPTH = 12
_MAX_OPERAND = 1 << 62


def evaluate_arithmetic(node: "Node", shell: ShellState, depth: int = 0) -> int | None:
    """Its value; None: it cannot be known, or is more than sums and products."""
    if depth > _MAX_DEPTH:
        return None
    text = (node.text or b"").decode(errors="replace")
    match node.type:
        case "number" | "word":
            return int(text) if text.isdecimal() and len(text) < 18 else None
        case "variable_name" | "simple_expansion":
            value = shell.variable(text.lstrip("$")) or ""
            return int(value) if value.isdecimal() and len(value) < 18 else None
        case "arithmetic_expansion" | "parenthesized_expression" if len(node.children) == 3:
            return evaluate_arithmetic(node.children[1], shell, depth + 1)
        case "binary_expression" if len(node.children) == 3:
            return _evaluate_binary(node, shell, depth + 1)
    return None


def _evaluate_binary(node: "Node", shell: ShellState, depth: int) -> int | None:
    left = evaluate_arithmetic(node.children[0], shell, depth)
    right = evaluate_arithmetic(node.children[2], shell, depth)
    if left is None or right is None or max(abs(left), abs(right)) > _MAX_OPERAND:
        return None
    match node.children[1].type:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    return None
