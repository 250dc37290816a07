"""Tools that the provider runs are found in every API, however they are spelt; what is not known is refused."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egressd import hosted
from egressd.named import Named, named
from proto.faults import Fault
from proto.rules import ModelApi

Row = tuple[ModelApi, dict[str, Any], tuple[str, ...]]


def tools(*found: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "tools": list(found)}


FUNCTION = {"type": "function", "name": "f", "parameters": {"tools": [{"type": "web_search"}]}}
CLIENT: list[Row] = [
    ("anthropic", {"model": "m"}, ()),
    ("anthropic", {"model": "m", "tools": None, "mcp_servers": [], "container": None}, ()),
    ("anthropic", tools({"name": "f", "input_schema": {}}, {"type": "custom", "name": "g"}), ()),
    ("anthropic", tools({"type": "bash_20250124", "name": "bash"}, {"type": "text_editor_20250728"}), ()),
    ("anthropic", tools({"type": "computer_20251124"}, {"type": "memory_20250818"}), ()),
    ("anthropic", tools({"type": "tool_search_tool_bm25_20251119"}), ()),
    ("openai-chat", tools({"type": "function", "function": {"name": "web_search"}}, {"type": "custom"}), ()),
    ("openai-chat", {"model": "gpt-5-search", "search_parameters": {"mode": "off"}, "enable_search": False}, ()),
    ("openai-responses", tools(FUNCTION, {"type": "local_shell"}, {"type": "apply_patch"}), ()),
    ("openai-responses", tools({"type": "namespace", "name": "mcp__mem", "tools": [FUNCTION]}), ()),
    ("openai-responses", tools({"type": "shell", "environment": {"type": "local"}}), ()),
    ("gemini", tools({"functionDeclarations": [{"name": "googleSearch"}]}, {"computerUse": {}}), ()),
    ("code-assist", {"model": "m", "request": tools({"function_declarations": []})}, ()),
    ("code-assist", {"model": "m", "tools": [{"googleSearch": {}}], "request": {}}, ()),
]
HOSTED: list[Row] = [
    ("anthropic", tools({"type": "web_search_20250305", "name": "web_search"}), ("web_search",)),
    ("anthropic", tools({"type": "web_fetch_20250910"}, {"type": "web_search_20260209"}), ("web_fetch", "web_search")),
    ("anthropic", tools({"type": "code_execution_20250825"}), ("code_execution",)),
    ("anthropic", tools({"type": "mcp_toolset", "mcp_server_name": "x"}), ("mcp",)),
    ("anthropic", {"model": "m", "mcp_servers": [{"type": "url", "url": "https://x"}]}, ("mcp",)),
    ("anthropic", {"model": "m", "container": {"skills": []}}, ("code_execution",)),
    ("anthropic", {"model": "m", "Tools": [{"Type": "web_search_20250305"}]}, ("web_search",)),
    ("anthropic", tools({"type": "advisor_20260301"}), ("advisor",)),
    ("openai-chat", {"model": "gpt-5", "web_search_options": {}}, ("web_search",)),
    ("openai-chat", {"model": "gpt-4o-search-preview"}, ("web_search",)),
    ("openai-chat", {"model": "vendor/model:online"}, ("web_search",)),
    ("openai-chat", {"model": "groq/compound-mini"}, ("web_search",)),
    ("openai-chat", {"model": "grok-4", "search_parameters": {"mode": "auto"}}, ("web_search",)),
    ("openai-chat", {"model": "grok-4", "searchParameters": {}}, ("web_search",)),
    ("openai-chat", {"model": "qwen-max", "enable_search": True}, ("web_search",)),
    ("openai-chat", {"model": "m", "plugins": [{"id": "web"}]}, ("plugins",)),
    ("openai-chat", {"model": "perplexity/sonar-pro"}, ("web_search",)),
    ("openai-chat", {"model": "m", "vector_store_ids": ["vs_1"]}, ("file_search",)),
    ("openai-chat", {"model": "m", "data_sources": [{"type": "azure_search"}]}, ("file_search",)),
    ("openai-chat", {"model": "m", "prompt_id": "p"}, ("stored_prompt",)),
    ("openai-chat", {"model": "m", "extra_body": {"tools": [{"type": "web_search"}]}}, ("extra_body",)),
    ("openai-chat", {"model": "m", "tool\u017f": [{"type": "web_search"}]}, ("web_search",)),
    ("openai-chat", tools({"type": "browser_search"}, {"type": "x_search"}), ("web_search", "x_search")),
    ("openai-responses", tools({"type": "web_search"}), ("web_search",)),
    ("openai-responses", tools({"type": "web_search_preview_2025_03_11"}), ("web_search",)),
    ("openai-responses", tools({"type": "file_search"}, {"type": "mcp"}), ("file_search", "mcp")),
    ("openai-responses", tools({"type": "code_interpreter"}), ("code_execution",)),
    ("openai-responses", tools({"type": "image_generation"}), ("image_generation",)),
    ("openai-responses", tools({"type": "shell", "environment": {"type": "container_auto"}}), ("code_execution",)),
    ("openai-responses", tools({"type": "shell"}), ("code_execution",)),
    ("openai-responses", tools({"type": "namespace", "tools": [{"type": "web_search"}]}), ("web_search",)),
    ("openai-responses", {"model": "m", "prompt": {"id": "pmpt_1"}}, ("stored_prompt",)),
    ("openai-responses", tools({"type": "made_up_tomorrow"}), ("made_up_tomorrow",)),
    ("gemini", tools({"googleSearch": {}}), ("web_search",)),
    ("gemini", tools({"google_search": {}, "functionDeclarations": []}), ("web_search",)),
    ("gemini", tools({"googleSearchRetrieval": {}}, {"urlContext": {}}), ("web_fetch", "web_search")),
    ("gemini", tools({"codeExecution": {}}, {"fileSearch": {}}), ("code_execution", "file_search")),
    ("gemini", tools({"google_maps": {}}, {"mcpServers": []}), ("google_maps", "mcp")),
    ("gemini", {"cached_content": "cachedContents/x"}, ("cached_content",)),
    ("gemini", tools({"quantumSearch": {}}), ("quantumsearch",)),
    ("code-assist", {"model": "m", "request": tools({"googleSearch": {}})}, ("web_search",)),
    ("code-assist", {"model": "m", "Request": tools({"url_context": {}})}, ("web_fetch",)),
]

SENT = "data:image/png;base64,iVBORw0KGgo="
AWAY = "https://collector.example/?q=secret"


def _said(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": list(parts)}]}


def _gemini(uri: str) -> dict[str, Any]:
    return {"contents": [{"parts": [{"fileData": {"mimeType": "video/mp4", "fileUri": uri}}]}]}


ADDRESSES: list[tuple[ModelApi, dict[str, Any], bool]] = [
    ("anthropic", _said({"type": "image", "source": {"type": "base64", "data": "iVBO"}}), False),
    ("anthropic", _said({"type": "image", "source": {"type": "url", "url": AWAY}}), True),
    ("anthropic", _said({"type": "tool_result", "content": [{"source": {"type": "url", "url": AWAY}}]}), True),
    ("anthropic", _said({"type": "tool_use", "input": {"type": "url", "url": AWAY}}), False),
    ("anthropic", {"system": [{"type": "document", "source": {"Type": "url", "url": AWAY}}]}, True),
    ("anthropic", _said({"type": "text", "text": AWAY}), False),
    ("openai-chat", _said({"type": "image_url", "image_url": {"url": SENT}}), False),
    ("openai-chat", _said({"type": "image_url", "image_url": {"url": AWAY}}), True),
    ("openai-chat", _said({"type": "image_url", "image_url": {"URL": "HTTPS://x"}}), True),
    ("openai-chat", _said({"type": "image_url", "image_url": {"url": " Data:image/png;base64,x"}}), False),
    ("openai-chat", _said({"type": "video", "video": [SENT, AWAY]}), True),
    ("openai-responses", {"input": [{"content": [{"type": "input_image", "image_url": SENT}]}]}, False),
    ("openai-responses", {"input": [{"content": [{"type": "input_image", "image_url": AWAY}]}]}, True),
    ("openai-responses", {"input": [{"content": [{"type": "input_file", "file_url": AWAY}]}]}, True),
    ("openai-responses", {"input": [{"type": "function_call_output", "output": [{"image_url": AWAY}]}]}, True),
    ("openai-responses", {"input": [{"type": "function_call", "arguments": {"image_url": AWAY}}]}, False),
    ("openai-chat", _said({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}), False),
    ("openai-chat", _said({"type": "input_audio", "input_audio": {"data": AWAY}}), True),
    ("openai-chat", _said({"type": "file", "file": {"file_id": "file-1"}}), False),
    ("openai-chat", _said({"type": "file", "file": {"file_id": "gs://bucket/x"}}), True),
    ("openai-responses", {"input": AWAY, "tools": [{"type": "function", "parameters": {"image_url": AWAY}}]}, False),
    ("gemini", _gemini("https://generativelanguage.googleapis.com/v1beta/files/x"), False),
    ("gemini", _gemini("https://www.youtube.com/watch?v=x"), True),
    ("gemini", _gemini("gs://bucket/x"), True),
    ("gemini", {"contents": [{"parts": [{"functionResponse": {"response": {"fileUri": AWAY}}}]}]}, False),
    ("gemini", {"contents": [{"parts": [{"functionResponse": {"parts": [{"file_data": {"file_uri": AWAY}}]}}]}]}, True),
    ("code-assist", {"request": _gemini(AWAY)}, True),
    ("code-assist", {"request": {"contents": []}, **_gemini(AWAY)}, False),
]


@pytest.mark.parametrize(("api", "body", "leads_out"), ADDRESSES)
def test_an_address_that_the_provider_would_follow_is_its_web_fetch(
    api: ModelApi, body: dict[str, Any], leads_out: bool
) -> None:
    assert _named(api, body).hosted_tools == (("web_fetch",) if leads_out else ())


@pytest.mark.parametrize(
    ("body", "dearer"),
    [
        ({}, False),
        ({"service_tier": None}, False),
        ({"service_tier": "auto"}, False),
        ({"serviceTier": "flex", "speed": "standard", "inference_geo": "global"}, False),
        ({"service_tier": "priority"}, True),
        ({"serviceTier": "priority"}, True),
        ({"service_tier": ["flex"]}, True),
        ({"speed": "fast"}, True),
        ({"inference_geo": "us"}, True),
    ],
)
def test_a_request_for_a_dearer_tier_is_known(body: dict[str, Any], dearer: bool) -> None:
    assert _named("anthropic", body).dearer is dearer
    assert _named("openai-responses", body).dearer is dearer


def _named(api: ModelApi, body: Any) -> Named:
    return named(api, json.dumps(body).encode(), "")


@pytest.mark.parametrize(("api", "body", "found"), CLIENT + HOSTED)
def test_what_the_provider_runs_is_found(api: ModelApi, body: dict[str, Any], found: tuple[str, ...]) -> None:
    read = _named(api, body)
    assert read.hosted_tools == found
    hosted.check(found, found, "up")
    if found:
        with pytest.raises(Fault) as raised:
            hosted.check(found, found[1:], "up")
        assert raised.value.code == "hosted-tool"
        assert raised.value.message == (
            f"refused: the request names {found[0]}, which the provider runs; "
            "hosted_tools of [destinations.up] does not name it"
        )


@settings(max_examples=30)
@given(st.sampled_from(HOSTED), st.text(max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_no_spelling_of_json_hides_it(row: Row, said: str, indent: int | None, escaped: bool) -> None:
    api, body, found = row
    text = json.dumps({f"no field {said}": said, **body}, indent=indent)
    if escaped:
        text = text.replace('"tools"', '"t\\u006fols"').replace('"type"', '"\\u0074ype"')
    assert named(api, text.encode(), "").hosted_tools == found


SMUGGLED = [
    b'{"tools":[],"tools":[{"type":"web_search"}]}',
    b'{"tools":[],"Tools":[{"type":"web_search"}]}',
    b'{"tools":[{"type":"function","type":"web_search"}]}',
    b'{"tools":[{"type":"function","TYPE":"web_search"}]}',
    b'{"tools":{"type":"web_search"}}',
    b'{"tools":["web_search"]}',
    b'{"tools":[{"name":"f"}]}',
    b'{"tools":[{"type":7}]}',
    b'{"model":"m","max_output_tokens":1,"maxOutputTokens":9}',
    b'{"model":"m","background":true}',
    b'{"tools":[]} {"tools":[{"type":"web_search"}]}',
    b'{"tools":[],}',
    b'{"a":Infinity}',
    b"",
    b"[]",
    b"null",
    b"tools",
    b"\xef\xbb\xbf{}",
    '{"tools":[]}'.encode("utf-16"),
    b'{"model":"\xff"}',
    b"[" * 200_000,
    b'{"a":' * 200_000,
]


@pytest.mark.parametrize("data", SMUGGLED, ids=lambda data: repr(data[:40]))
def test_what_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    with pytest.raises(Fault) as raised:
        named("openai-responses", data, "")
    assert raised.value.code == "request-invalid"


OUTPUTS: list[tuple[ModelApi, dict[str, Any], int | None, int]] = [
    ("anthropic", {"max_tokens": 9}, 9, 1),
    ("anthropic", {"max_tokens": -1}, None, 1),
    ("anthropic", {"max_tokens": True, "n": 3}, None, 1),
    ("openai-responses", {"max_output_tokens": 9, "max_tokens": 5}, 9, 1),
    ("openai-chat", {"max_tokens": 5, "max_completion_tokens": 7, "n": 3}, 7, 3),
    ("openai-chat", {"max_completion_tokens": "x", "n": 0}, None, 1),
    ("openai-chat", {"n": 4}, None, 4),
    ("gemini", {"generationConfig": {"maxOutputTokens": 5, "candidateCount": 2}}, 5, 2),
    ("openai-chat", {"maxTokens": 1}, None, 1),
    ("openai-chat", {"MAX_TOKENS": 1, "max_completion_tokens": 9}, 9, 1),
    ("anthropic", {"max-tokens": 1}, None, 1),
    ("gemini", {"GenerationConfig": {"maxOutputTokens": 5}}, None, 1),
    ("gemini", {"generationConfig": {"MaxOutputTokens": 5, "candidateCount": None}}, None, 1),
    ("gemini", {"generation_config": {"max_output_tokens": 5}}, 5, 1),
    ("code-assist", {"request": {"generationConfig": {"maxOutputTokens": 5}}, "maxOutputTokens": 9}, 5, 1),
]


@pytest.mark.parametrize(("api", "body", "most", "answers"), OUTPUTS)
def test_the_most_that_can_be_answered(api: ModelApi, body: dict[str, Any], most: int | None, answers: int) -> None:
    read = _named(api, body)
    assert (read.most_output, read.answers) == (most, answers)


KEPT: list[tuple[ModelApi, dict[str, Any]]] = [
    ("openai-responses", {"previous_response_id": "resp_1", "input": "hi"}),
    ("openai-responses", {"conversation": {"id": "conv_1"}}),
    ("openai-responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}),
    ("openai-responses", {"input": [{"content": [{"type": "input_file", "file_id": "file-1"}]}]}),
    ("openai-chat", _said({"type": "file", "file": {"file_id": "file-1"}})),
    ("anthropic", _said({"type": "document", "source": {"type": "file", "file_id": "file_1"}})),
    ("gemini", {"cachedContent": "cachedContents/x"}),
    ("gemini", _gemini("https://generativelanguage.googleapis.com/v1beta/files/x")),
    ("code-assist", {"request": _gemini("https://generativelanguage.googleapis.com/v1beta/files/x")}),
]


@pytest.mark.parametrize(("api", "body"), KEPT)
def test_for_what_a_request_names_and_does_not_hold_a_whole_context_is_reserved(
    api: ModelApi, body: dict[str, Any]
) -> None:
    assert _named(api, body).unseen_tokens == 1_000_000


@pytest.mark.parametrize(("api", "body", "_"), CLIENT)
def test_what_a_request_holds_is_as_long_as_it_is(api: ModelApi, body: dict[str, Any], _: tuple[str, ...]) -> None:
    assert _named(api, {**body, "previous_response_id": None, "file_id": "of no part"}).unseen_tokens == 0


@pytest.mark.parametrize("answers", ["8", -1, 1.5, True, [8]])
def test_a_number_of_answers_that_some_could_read_is_refused(answers: Any) -> None:
    with pytest.raises(Fault, match="number of answers"):
        _named("openai-chat", {"n": answers})
    with pytest.raises(Fault, match="number of answers"):
        _named("gemini", {"generationConfig": {"candidateCount": answers}})


def test_the_model_of_the_path_comes_before_that_of_the_body() -> None:
    assert named("gemini", b'{"model":"other"}', "gemini-2.5-pro").model == "gemini-2.5-pro"
    assert named("anthropic", b'{"model":"claude"}', "").model == "claude"
    assert named("anthropic", b'{"model":["claude"]}', "").model == ""
