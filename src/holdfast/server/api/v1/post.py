"""What came in and what is owed in the table of `/api/v1`."""

from holdfast.server.api.endpoint import Endpoint, Media
from holdfast.server.api.v1 import messages, outbox, sending
from holdfast.server.api.views.message_views import MessageView
from holdfast.server.api.views.outbox_views import InboxList, OwedList, OwedView
from holdfast.server.api.views.sending_views import DeliveryView, NewSending, OutgoingFile

_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/send",
        about="Send a message to a chat where nobody has asked for one.",
        handler=sending.send,
        looks=False,
        takes=NewSending,
        gives=DeliveryView,
        statuses=(202, 200),
        refuses=(409,),
    ),
    Endpoint(
        method="POST",
        path="/outgoing",
        about="Hand in a file that is to be sent; it is kept until then.",
        handler=sending.hand_in,
        looks=False,
        query=sending.FileQuery,
        takes=bytes,
        takes_media=Media.FILE,
        gives=OutgoingFile,
        statuses=(201,),
    ),
    Endpoint(
        method="GET",
        path="/deliveries/{id}",
        about="What became of something that was sent; with `wait`, once it has ended.",
        handler=sending.read_delivery,
        looks=True,
        query=sending.ReceiptQuery,
        gives=DeliveryView,
    ),
    Endpoint(
        method="GET",
        path="/outbox",
        about="What is owed to chats, or was, the newest first.",
        handler=outbox.list_outbox,
        looks=True,
        query=outbox.OutboxQuery,
        gives=OwedList,
    ),
    Endpoint(
        method="POST",
        path="/deliveries/{id}/retry",
        about="Send again what failed, or what may have arrived; the latter is marked.",
        handler=outbox.retry_delivery,
        looks=False,
        gives=OwedView,
        statuses=(202,),
        refuses=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/inbox",
        about="The messages that have not ended, or those that ended so, the newest first.",
        handler=outbox.list_inbox,
        looks=True,
        query=outbox.InboxQuery,
        gives=InboxList,
    ),
    Endpoint(
        method="GET",
        path="/messages/{id}",
        about="What became of a message; with `wait`, once it has ended.",
        handler=messages.read_message,
        looks=True,
        query=messages.WaitQuery,
        gives=MessageView,
    ),
)
