"""What came in and what is owed in the table of `/api/v1`."""

from holdfast.server.api.endpoint import Endpoint, Media
from holdfast.server.api.v1 import messages, outbox, sending
from holdfast.server.api.views.message_views import MessageView
from holdfast.server.api.views.outbox_views import DeliveryDetail, DeliveryList, InboxList
from holdfast.server.api.views.sending_views import DeliveryView, OutgoingFileView, SendParams

_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="POST",
        path="/send",
        summary="Send a message to a chat where nobody has asked for one.",
        handler=sending.create_delivery,
        read_only=False,
        request_type=SendParams,
        response_type=DeliveryView,
        statuses=(202, 200),
        error_statuses=(409,),
    ),
    Endpoint(
        method="POST",
        path="/outgoing",
        summary="Hand in a file that is to be sent; it is kept until then.",
        handler=sending.upload_file,
        read_only=False,
        query=sending.UploadQuery,
        request_type=bytes,
        request_media=Media.FILE,
        response_type=OutgoingFileView,
        statuses=(201,),
    ),
    Endpoint(
        method="GET",
        path="/deliveries/{id}",
        summary="What became of something that was sent; with `wait`, once it has ended.",
        handler=sending.read_delivery,
        read_only=True,
        query=sending.DeliveryQuery,
        response_type=DeliveryView,
    ),
    Endpoint(
        method="GET",
        path="/outbox",
        summary="What is owed to chats, or was, the newest first.",
        handler=outbox.list_outbox,
        read_only=True,
        query=outbox.OutboxQuery,
        response_type=DeliveryList,
    ),
    Endpoint(
        method="POST",
        path="/deliveries/{id}/retry",
        summary="Send again what failed, or what may have arrived; the latter is marked.",
        handler=outbox.retry_delivery,
        read_only=False,
        response_type=DeliveryDetail,
        statuses=(202,),
        error_statuses=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/inbox",
        summary="The messages that have not ended, or those that ended so, the newest first.",
        handler=outbox.list_inbox,
        read_only=True,
        query=outbox.InboxQuery,
        response_type=InboxList,
    ),
    Endpoint(
        method="GET",
        path="/messages/{id}",
        summary="What became of a message; with `wait`, once it has ended.",
        handler=messages.read_message,
        read_only=True,
        query=messages.WaitQuery,
        response_type=MessageView,
    ),
)
