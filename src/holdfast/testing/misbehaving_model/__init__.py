"""A model server that misbehaves on demand, for tests, benchmarks and demos.

    python -m holdfast.testing.misbehaving_model --port 0      # prints {"port": N} once it listens

It speaks all three API modes (`/v1/chat/completions`, `/v1/responses`, `/v1/messages`), each
scripted the same way. Left alone it answers at once: `You said: <last user text>`, or, where the
last message is a tool result, `Done: <its first 200 characters>`. It is as strict as the
strictest provider of the mode: a request that breaks a rule gets a 400 that says which. What it
was asked is kept (`GET /requests`).

There are two ways to script it. Both make *steps*, and a step is one answer.

**In the conversation**: directives in square brackets in the last user message. They need no
state, so a resumed turn meets the same script. `[then]` begins the next step; which step is due
is the number of assistant messages since that user message. After the last one it answers as if
left alone. What is no directive is just text, and a `[System note: …]` is no user's message.

    [tool terminal {"command": "ls"}] [tool read {"path": "a"}] [then] [text all done]
    [latency 3]        seconds before the headers     [first 3]     seconds before the first token
    [delay 0.1]        seconds between two events     [split 1]     bytes a write (cuts characters)
    [fragment 3]       characters of tool arguments an event       [reasoning let me see]
    [status 429 2]     an HTTP error, with Retry-After              [cached 100] [finish length]
    [fault cut]        see `ScriptedFault`: cut, half_json, silence, stall, comments, drop, html,
                       json_error, error_event, no_finish, no_done, unstreamed, misnamed
    [times 2]          the step counts for that many requests of this text; then it is left out

**From outside**: `POST /script` with a JSON list of steps, used up in order by the requests that
come; a step with `match` waits for one whose last user message contains it.

    [{"match": "hi", "times": 1, "text": "hello", "reasoning": "…", "latency": 0, "first": 0,
      "delay": 0, "split": 0, "fragment": 0, "status": 429, "retry_after": "2", "fault": "cut",
      "message": "said with the status", "finish": "stop", "cached": 0,
      "calls": [{"name": "terminal", "arguments": {"command": "ls"}, "id": "call_1"}]}]

`GET /requests?last=N` gives `{"count", "refused", "requests": [bodies, oldest first]}`;
`POST /reset` forgets script and ledger.
"""
