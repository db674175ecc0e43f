"""The suite: every check, in the order in which a door is best written."""

from holdfast.platforms.conformance import belongings, hearing, lines, people, speaking, words
from holdfast.platforms.conformance.check import Check

CHECKS: tuple[Check, ...] = tuple(
    each
    for topic in (hearing, speaking, lines, people, words, belongings)
    for each in vars(topic).values()
    if isinstance(each, Check)
)
