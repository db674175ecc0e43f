"""Length: how much of a message a text takes, in the unit its platform counts in."""

from holdfast.core.ports.capabilities import LengthUnit


def message_length(text: str, unit: LengthUnit = LengthUnit.CHARACTERS) -> int:
    if unit is LengthUnit.CHARACTERS or text.isascii():
        return len(text)
    if unit is LengthUnit.UTF16:
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def fitting_prefix(text: str, limit: int, unit: LengthUnit = LengthUnit.CHARACTERS) -> int:
    """The most characters from the beginning of the text that take no more than the limit."""
    most = min(len(text), max(limit, 0))  # no character takes less than one of any unit
    if message_length(text[:most], unit) <= limit:
        return most
    least = 0
    while most - least > 1:
        middle = (least + most) // 2
        if message_length(text[:middle], unit) <= limit:
            least = middle
        else:
            most = middle
    return least
