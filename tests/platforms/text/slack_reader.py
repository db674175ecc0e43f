"""Reads blocks of Slack: returns the text that a user sees."""

from typing import Any


def block_text(block: dict[str, Any]) -> str:
    """The visible text of a rich text block, with the numbers of ordered lists."""
    found = []
    for element in block["elements"]:
        if element["type"] != "rich_text_list":
            found += [leaf["text"] for leaf in element["elements"]]
            continue
        for number, section in enumerate(element["elements"], element.get("offset", 0) + 1):
            found.append(f"{number}." if element["style"] == "ordered" else "")
            found += [leaf["text"] for leaf in section["elements"]]
    return "".join(found)
