"""The closed table: what each API relays, what is answered here, and that everything else is nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.meter.anthropic import Anthropic
from egressd.meter.code_assist import CodeAssist
from egressd.meter.gemini import Gemini
from egressd.meter.openai_chat import OpenAiChat
from egressd.meter.openai_responses import OpenAiResponses
from egressd.routes import METERS, Route, What, api_of, route
from proto.rules import ModelApi

RELAYED: list[tuple[ModelApi, str, str, What, str]] = [
    ("openai-chat", "POST", "/v1/chat/completions", "call", ""),
    ("openai-chat", "GET", "/v1/models", "read", ""),
    ("openai-chat", "GET", "/v1/models/gpt-5", "read", ""),
    ("openai-chat", "GET", "/v1/models/vendor/model-1:free", "read", ""),
    ("openai-responses", "POST", "/v1/responses", "call", ""),
    ("openai-responses", "GET", "/v1/models", "read", ""),
    ("openai-responses", "GET", "/muse-code/models", "read", ""),
    ("anthropic", "POST", "/v1/messages", "call", ""),
    ("anthropic", "POST", "/v1/messages/count_tokens", "read", ""),
    ("anthropic", "GET", "/v1/models/claude-opus-4-8", "read", ""),
    ("gemini", "POST", "/v1beta/models/gemini-2.5-pro:generateContent", "call", "gemini-2.5-pro"),
    ("gemini", "POST", "/v1/models/gemini-2.5-pro:streamGenerateContent", "call", "gemini-2.5-pro"),
    ("gemini", "POST", "/v1beta/models/vendor/qwen3.8-27b:generateContent", "call", "vendor/qwen3.8-27b"),
    ("gemini", "POST", "/v1beta/models/gemini-2.5-pro:countTokens", "read", "gemini-2.5-pro"),
    ("gemini", "GET", "/v1beta/models/gemini-2.5-pro", "read", "gemini-2.5-pro"),
    ("gemini", "GET", "/v1beta/models", "read", ""),
    ("code-assist", "POST", "/v1internal:generateContent", "call", ""),
    ("code-assist", "POST", "/v1internal:streamGenerateContent", "call", ""),
    ("code-assist", "POST", "/v1internal:loadCodeAssist", "read", ""),
    ("code-assist", "POST", "/v1internal:onboardUser", "read", ""),
    ("code-assist", "POST", "/v1internal:countTokens", "read", ""),
    ("code-assist", "POST", "/v1internal:retrieveUserQuota", "read", ""),
    ("code-assist", "GET", "/v1internal/operations/abc.1", "read", ""),
]
NOTHING: list[tuple[ModelApi, str, str]] = [
    ("openai-chat", "GET", "/v1/chat/completions"),
    ("openai-chat", "POST", "/chat/completions"),
    ("openai-chat", "POST", "/v1/responses"),
    ("openai-chat", "POST", "/v1/chat/completions/"),
    ("openai-chat", "POST", "//v1/chat/completions"),
    ("openai-chat", "POST", "/v1/chat%2Fcompletions"),
    ("openai-chat", "POST", "/v1/./chat/completions"),
    ("openai-chat", "GET", "/v1/models/../files"),
    ("openai-chat", "GET", "/v1/models/%2e%2e/files"),
    ("openai-chat", "GET", "/v1/models/"),
    ("openai-chat", "GET", "/v1/models/a/b/c"),
    ("openai-chat", "GET", "/v1/models/a\n"),
    ("openai-responses", "GET", "/v1/responses"),
    ("openai-responses", "GET", "/v1/responses/resp_1"),
    ("anthropic", "POST", "/v1/messages/batches"),
    ("anthropic", "POST", "/v1/files"),
    ("anthropic", "POST", "/V1/messages"),
    ("gemini", "POST", "/v1beta/models/../tunedModels/x:generateContent"),
    ("gemini", "POST", "/v1beta/models/a:generateContent:generateContent"),
    ("gemini", "POST", "/v1beta/models/a:embedContent"),
    ("gemini", "POST", "/v1beta/models/a%3AgenerateContent"),
    ("gemini", "POST", "/v1beta/cachedContents"),
    ("gemini", "POST", "/upload/v1beta/files"),
    ("code-assist", "POST", "/v1internal:executeSomething"),
    ("code-assist", "GET", "/v1internal/operations/../x"),
]


@pytest.mark.parametrize(("api", "method", "path", "what", "model"), RELAYED)
def test_what_is_relayed(api: ModelApi, method: str, path: str, what: What, model: str) -> None:
    found = route([api], method, path)
    assert found == Route(api, what, model)
    assert (found.meter is None) == (what != "call")


@pytest.mark.parametrize(("api", "method", "path"), NOTHING)
def test_what_is_not(api: ModelApi, method: str, path: str) -> None:
    assert route([api], method, path) is None


@given(st.sampled_from(RELAYED), st.text(alphabet="/.%:a?#\n ", min_size=1, max_size=3), st.integers(0, 60))
def test_a_path_with_anything_more_in_it_is_another(
    row: tuple[ModelApi, str, str, What, str], more: str, at: int
) -> None:
    api, method, path, _, _ = row
    other = path[:at] + more + path[at:]
    found = route([api], method, other)
    assert found is None or (found.what != "here" and not {"//", "..", "%", "?", "#", "\n", " "} & set(other))


def test_every_api_has_its_meter() -> None:
    meters: dict[str, type[Any]] = {api: type(meter()) for api, meter in METERS.items()}
    assert meters == {
        "openai-chat": OpenAiChat,
        "openai-responses": OpenAiResponses,
        "anthropic": Anthropic,
        "gemini": Gemini,
        "code-assist": CodeAssist,
    }


@pytest.mark.parametrize(("method", "path"), [("HEAD", "/api/hello"), ("GET", "/"), ("HEAD", "/")])
def test_what_is_answered_here(method: str, path: str) -> None:
    found = route(["anthropic"], method, path)
    assert found is not None
    assert found.what == "here"
    assert route(["anthropic"], "POST", path) is None


def test_the_catalog_of_muse_is_another_path_at_a_gateway() -> None:
    found = route(["openai-chat", "openai-responses"], "GET", "/muse-code/models", ["models-catalog"])
    assert found == Route("openai-chat", "read", target="/v1/models")
    assert route(["openai-chat"], "GET", "/muse-code/models") is None


SHAPES: list[tuple[str, list[ModelApi], ModelApi]] = [
    ("/v1/messages/batches", ["openai-chat", "anthropic"], "anthropic"),
    ("/v1/messages", ["openai-chat"], "openai-chat"),
    ("/v1beta/x", [], "gemini"),
    ("/v1internal:x", [], "code-assist"),
    ("/x", ["gemini", "anthropic"], "gemini"),
    ("/x", [], "openai-chat"),
]


@pytest.mark.parametrize(("path", "apis", "api"), SHAPES)
def test_a_refusal_has_the_shape_of_the_path(path: str, apis: list[ModelApi], api: ModelApi) -> None:
    assert api_of(path, apis) == api
