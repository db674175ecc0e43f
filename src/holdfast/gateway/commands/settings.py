"""Commands that choose settings of a session or chat: /model, /busy, /quiet."""

from collections.abc import Mapping

from holdfast.core.commands import COMMANDS_BY_NAME, CommandRequest
from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode
from holdfast.core.messages.outbox import QuietChat
from holdfast.core.ports.store_queries import GetBusyMode, GetSession
from holdfast.core.text.translation import N_, _
from holdfast.gateway.commands.context import SettingsContext
from holdfast.gateway.commands.reply import prepare_effect, send_reply

DEFAULT = "default"


async def cmd_model(context: SettingsContext, request: CommandRequest) -> None:
    """Show which model answers here, or choose another for this session."""
    if request.argument:
        await _choose_model(context, request)
    else:
        await _show_model(context, request)


async def _show_model(context: SettingsContext, request: CommandRequest) -> None:
    row = (
        await context.store.read(GetSession(session_id=request.session_id))
        if request.session_id
        else None
    )
    chosen = row.model_override if row else None
    model = context.agents.model
    if chosen:
        text = _("The model is {model} (chosen here).").format(model=chosen)
    else:
        text = _("The model is {model} ({provider}): {reason}.").format(
            model=model.name, provider=model.provider, reason=model.why.for_person()
        )
    await send_reply(context.replies, request.row, text)


async def _choose_model(context: SettingsContext, request: CommandRequest) -> None:
    name = request.argument
    default = name.lower() == DEFAULT
    model = context.agents.model.name if default else name
    session_id = request.session_id or SessionId(context.runtime.new_id("s"))
    await send_reply(
        context.replies,
        request.row,
        _("{model} answers from your next message on.").format(model=model),
        session_id=session_id,
        route=request.row.route,
        reset=context.sessions.reset_for(request),
        model_override="" if default else name,
    )
    context.agents.drop(session_id)


_MEANINGS: Mapping[BusyMode, str] = {
    BusyMode.INTERRUPT: N_(
        "While the agent works, a new message interrupts it, and both are answered together"
    ),
    BusyMode.QUEUE: N_("While the agent works, a new message waits and is answered afterwards"),
    BusyMode.STEER: N_("While the agent works, a new message reaches it at its next step"),
}


async def cmd_busy(context: SettingsContext, request: CommandRequest) -> None:
    """Show what a message does to a running turn, or choose it for this session."""
    word = request.argument.lower()
    if not word:
        session_id = request.session_id
        chosen = (
            await context.store.read(GetBusyMode(session_id=session_id)) if session_id else None
        )
        await send_reply(context.replies, request.row, _busy_text(context, request, chosen))
    elif word == DEFAULT:
        await _choose_busy_mode(context, request, None)
    elif word in _MEANINGS:
        await _choose_busy_mode(context, request, BusyMode(word))
    else:
        wrong = COMMANDS_BY_NAME["busy"].unknown_argument(request.argument)
        await send_reply(context.replies, request.row, wrong)


async def _choose_busy_mode(
    context: SettingsContext, request: CommandRequest, mode: BusyMode | None
) -> None:
    await send_reply(
        context.replies,
        request.row,
        _busy_text(context, request, mode),
        session_id=request.session_id or SessionId(context.runtime.new_id("s")),
        route=request.row.route,
        reset=context.sessions.reset_for(request),
        busy_mode="" if mode is None else mode.value,
    )


def _busy_text(context: SettingsContext, request: CommandRequest, chosen: BusyMode | None) -> str:
    mode = chosen or context.live_settings.busy_mode(request.row.inbound.source)
    origin = _("chosen here") if chosen else _("the default")
    return f"{_(_MEANINGS[mode])} ({mode}, {origin})."


_QUIET_WORDS: Mapping[str, bool | None] = {"on": True, "off": False, "default": None}
_QUIET_TEXT = N_("This chat gets answers only")
_LOUD_TEXT = N_("This chat gets answers, progress and notices")


async def cmd_quiet(context: SettingsContext, request: CommandRequest) -> None:
    """Show whether this chat gets replies only, or choose it."""
    replies, row, word = context.replies, request.row, request.argument.lower()
    if replies.delivery_factory.is_fetched(row):
        text = _("/quiet has no effect here, because nothing is sent to this chat unasked.")
        await send_reply(replies, row, text)
    elif not word:
        source, quiet = row.inbound.source, context.quiet_chats
        by_command = quiet.is_set_by_command(source)
        origin = _("chosen here") if by_command else _("as configured")
        await send_reply(replies, row, f"{_quiet_state_text(quiet.is_quiet(source))} ({origin}).")
    elif word in _QUIET_WORDS:
        await _choose_quiet(context, request, _QUIET_WORDS[word])
    else:
        wrong = COMMANDS_BY_NAME["quiet"].unknown_argument(request.argument)
        await send_reply(replies, row, wrong)


async def _choose_quiet(
    context: SettingsContext, request: CommandRequest, quiet: bool | None
) -> None:
    source = request.row.inbound.source
    chat = QuietChat(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        quiet=quiet,
        set_by=request.row.principal,
        at=context.runtime.clock.now(),
    )
    if quiet is None:
        text = _("This chat uses the configuration again.")
    else:
        text = f"{_quiet_state_text(quiet)}."
    effect = prepare_effect(context.replies, request.row, text, quiet=chat)
    await context.replies.effects.commit(
        effect, on_committed=lambda _outcome: context.quiet_chats.set_quiet(chat)
    )


def _quiet_state_text(quiet: bool) -> str:
    return _(_QUIET_TEXT) if quiet else _(_LOUD_TEXT)
