"""Errors of models, providers and egressd, as one table."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopd.ports import errors
from loopd.turn.steps import Failed
from proto.faults import FAULTS

FULL = Failed("session-full", "this session is full; start a new one, and what it learned stays in memory")


def openai(message: str, code: object = None, type: str = "invalid_request_error") -> bytes:
    return json.dumps({"error": {"message": message, "type": type, "code": code}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "failed"),
    [
        (400, openai("bad"), Failed("model-error", "the model's provider refused the request (HTTP 400): bad")),
        (401, openai("Incorrect API key"), Failed("model-error", "the model's provider refused the key (HTTP 401): Incorrect API key")),
        (402, b"{}", Failed("model-error", "the model's provider wants to be paid (HTTP 402)")),
        (403, openai("region", "unsupported_country"), Failed("model-error", "the model's provider refused this key the request (HTTP 403): region")),
        (404, openai("no such model", "model_not_found"), Failed("model-error", "the model's provider has no such model (HTTP 404): no such model")),
        (418, b"teapot\x1b[1m", Failed("model-error", "the model's provider refused the request (HTTP 418): teapot\\u{1b}[1m")),
        (429, openai("slow down"), Failed("model-unavailable", "the model's provider takes no more requests for now; try again later (HTTP 429): slow down")),
        (500, b"", Failed("model-unavailable", "the model's provider failed (HTTP 500)")),
        (529, b'{"error": "overloaded"}', Failed("model-unavailable", "the model's provider failed (HTTP 529): overloaded")),
        (500, b'[["x"]]', Failed("model-unavailable", "the model's provider failed (HTTP 500): [['x']]")),
        # The context is full: OpenAI, llama.cpp, vLLM, Anthropic's compatible API, a gateway's limit.
        (400, openai("too long", "context_length_exceeded"), FULL),
        (400, openai("the request exceeds the available context size", 400, "exceed_context_size_error"), FULL),
        (400, openai("This model's maximum context length is 8192 tokens. However, you requested 9000"), FULL),
        (400, b'{"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}', FULL),
        (413, b"", FULL),
        # egressd's own.
        (403, openai("the session is secret", "ceiling", "permission_error"), Failed("ceiling", "the session is secret")),
        (403, openai("", "credential-missing", "permission_error"), Failed("credential-missing", "the destination's credential is not set")),
        (404, openai("no destination x", "destination-unknown"), Failed("destination-unknown", "no destination x")),
        (502, openai("local does not answer", "upstream-unreachable"), Failed("upstream-unreachable", "local does not answer")),
        (403, openai("not open", "session-not-open"), Failed("session-not-open", "not open")),
    ],
)  # fmt: skip
def test_the_table(status: int, body: bytes, failed: Failed) -> None:
    assert errors.of_response(status, body) == failed


def test_a_long_message_is_clipped() -> None:
    assert len(errors.of_response(400, openai("x" * 5000)).message) < 300


def test_an_error_inside_a_stream() -> None:
    assert errors.of_chunk({"choices": []}) is None
    assert errors.of_chunk({"error": None}) is None
    assert errors.of_chunk({"error": {"message": "overloaded", "code": 503}}) == Failed(
        "model-unavailable", "the model's provider failed (in its stream): overloaded"
    )
    assert errors.of_chunk({"error": {"message": "x", "code": "context_length_exceeded"}}) == FULL


@given(st.integers(300, 599), st.binary(max_size=60))
def test_whatever_comes_is_one_sentence_with_a_code(status: int, body: bytes) -> None:
    failed = errors.of_response(status, body)
    assert failed.code in FAULTS
    assert "\n" not in failed.message
