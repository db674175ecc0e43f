"""One type per kind of id, so that the type checker catches one passed for another."""

from typing import NewType

SessionKey = NewType("SessionKey", str)  # a route: platform, account, chat, thread, user
SessionId = NewType("SessionId", str)  # a conversation; immutable
TurnId = NewType("TurnId", str)
CallId = NewType("CallId", str)  # one tool call, unique within its session
InboxId = NewType("InboxId", int)  # increases in the order of acceptance
DeliveryId = NewType("DeliveryId", str)
PrincipalId = NewType("PrincipalId", str)
ApprovalId = NewType("ApprovalId", str)
RuleId = NewType("RuleId", str)
