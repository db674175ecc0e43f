"""A cut line: what an error of a connection to the gateway means, in words for people."""

import http.client


def describe_connection_error(error: Exception) -> str:
    """Goes on after a colon; the names of exceptions are for those who wrote them."""
    match error:
        case TimeoutError():
            return "nothing was heard from it for too long"
        case http.client.IncompleteRead() | http.client.RemoteDisconnected() | EOFError():
            return "it hung up half-way"
        case ConnectionRefusedError():
            return "nobody listens there"
        case ConnectionError():
            return "it hung up"
        case http.client.HTTPException():
            return "it answers in a form that is not HTTP"
        case OSError(strerror=str(told)):
            return told[:1].lower() + told[1:]
    return str(error) or repr(error)
