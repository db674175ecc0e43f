"""The sign that a person's message bears while it waits: one, so that a door which must name what
it takes back can."""

WAITING_REACTION = "👀"
