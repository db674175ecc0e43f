"""What was read in a document."""

import msgspec


class DocumentText(msgspec.Struct, frozen=True, kw_only=True):
    """`more`: there is more of it. `problem`: why it is nothing, or not all."""

    text: str = ""
    more: bool = False
    problem: str = ""
