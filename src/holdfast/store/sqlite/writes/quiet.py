"""Quiet chats: what people have said of them."""

import apsw

from holdfast.core.ids import PrincipalId
from holdfast.core.messages.quiet import QuietChat


def set_quiet_chat(cursor: apsw.Cursor, chat: QuietChat) -> None:
    place = (chat.platform, chat.account, chat.chat_id)
    if chat.quiet is None:
        cursor.execute(
            "DELETE FROM quiet_chats WHERE platform = ? AND account = ? AND chat_id = ?", place
        )
        return
    cursor.execute(
        "INSERT OR REPLACE INTO quiet_chats (platform, account, chat_id, quiet, set_by, at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*place, int(chat.quiet), chat.set_by, chat.at),
    )


def quiet_chats(cursor: apsw.Cursor) -> list[QuietChat]:
    found = cursor.execute("SELECT platform, account, chat_id, quiet, set_by, at FROM quiet_chats")
    return [
        QuietChat(
            platform=row[0],
            account=row[1],
            chat_id=row[2],
            quiet=bool(row[3]),
            set_by=PrincipalId(row[4]),
            at=row[5],
        )
        for row in found
    ]
