"""The official clients of Anthropic, OpenAI and Google through a session's own socket, against a fake of each provider."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from proto.messages.egress import Usage, UsageReply, UsageRow
from tests.e2e.box import Box, running
from tests.egressd.own import opened
from tests.egressd.streams import STREAMS, Stream
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import Upstream, answer, upstream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

BASE = "http://session"
STAND_IN = "boxmaker-holds-the-key"
KEY = "sk-held-by-egressd-0123456789"
SAID: list[Any] = [{"role": "user", "content": "Grüße"}]
WHY = "refused: the session's label is above the ceiling of the destination (runbook: ceiling)"


class Provider:
    """A fake provider behind a door: answers each request with what the test last set; `sent` are the requests."""

    def __init__(self, home: Path, box: Box, broker: FakeBroker, up: Upstream) -> None:
        self.home = home
        self.broker = broker
        self._box = box
        self._up = up

    @property
    def sent(self) -> list[bytes]:
        """The requests that came."""
        return self._up.requests

    def says(self, name: str) -> Stream:
        """Answer with the recorded stream of a name from now on."""
        (found,) = [stream for stream in STREAMS if stream.name == name]
        self._up.script = answer(found.body, content_type=found.content_type, status=found.status)
        return found

    def gives(self, value: Any) -> None:
        """Answer with JSON from now on."""
        self._up.script = answer(json.dumps(value).encode(), content_type="application/json")

    def http(self, api: str) -> httpx2.Client:
        """What a client of an API speaks through: the socket of a session of its own."""
        path = opened(self._box, f"run-{api}", destination=api, auth="key", harness=None)
        return httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path)))

    def rows(self, api: str) -> list[UsageRow]:
        """What was booked of an API's session, the refused calls too."""
        reply: UsageReply = self._box.ask("owner-egress", Usage(session=f"run-{api}"), UsageReply)
        return reply.rows


@pytest.fixture(scope="module")
def _running() -> Iterator[tuple[Path, Box, FakeBroker, Upstream]]:
    with tempfile.TemporaryDirectory(prefix="bx") as folder, upstream(answer(b"")) as up:
        home = Path(folder)
        rules = [
            f'[destinations.{api}]\nbase_url = "{up.url}"\napi = "{api}"\ncredential = "HELD_KEY"\n'
            for api in ("anthropic", "openai-chat", "openai-responses", "gemini")
        ]
        (home / "grants.toml").write_text("\n".join(rules))
        broker = FakeBroker(home)
        with running(home, "egressd", environ={"HELD_KEY": KEY}) as box:
            yield home, box, broker, up
        broker.stop()


@pytest.fixture
def provider(_running: tuple[Path, Box, FakeBroker, Upstream]) -> Iterator[Provider]:
    home, box, broker, up = _running
    yield Provider(home, box, broker, up)
    broker.allow, broker.reasons = True, ["granted"]
    up.requests.clear()


def _head(sent: bytes) -> str:
    return sent.split(b"\r\n\r\n")[0].decode("latin-1")


def _counts(row: UsageRow) -> tuple[int | None, ...]:
    return (row.input_tokens, row.output_tokens, row.cache_read_tokens, row.cache_write_5m_tokens, row.reasoning_tokens)


def _counted(*streams: Stream) -> set[tuple[int | None, ...]]:
    """The sums of the usage in streams, as one row has them."""
    names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "reasoning_tokens")
    values = [[getattr(stream.usage, name) for stream in streams] for name in names]
    return {tuple(sum(filter(None, each)) if any(one is not None for one in each) else None for each in values)}


def test_anthropic(provider: Provider) -> None:
    import anthropic

    with provider.http("anthropic") as http:
        client = anthropic.Anthropic(api_key=STAND_IN, base_url=BASE, http_client=http)
        asked: dict[str, Any] = {"model": "claude-sonnet-5", "max_tokens": 64, "messages": SAID}

        streamed = provider.says("messages: a cache for five minutes")
        with client.messages.stream(**asked) as stream:
            text = "".join(stream.text_stream)
            usage = stream.get_final_message().usage
        assert text
        assert (usage.output_tokens, usage.cache_read_input_tokens) == (15, 4000)
        head = _head(provider.sent[-1])
        assert head.startswith("POST /v1/messages HTTP/1.1\r\n")
        assert f"X-Api-Key: {KEY}" in head
        assert "anthropic-version: 2" in head.lower()
        assert STAND_IN not in head

        whole = provider.says("messages: whole")
        assert client.messages.create(**asked).usage.cache_creation_input_tokens == 300
        provider.gives({"input_tokens": 7})
        assert client.messages.count_tokens(model="claude-sonnet-5", messages=SAID).input_tokens == 7
        provider.gives({"data": [{"type": "model", "id": "claude-sonnet-5", "display_name": "x", "created_at": "2026-01-01T00:00:00Z"}], "has_more": False})  # fmt: skip
        assert [model.id for model in client.models.list()] == ["claude-sonnet-5"]

        before = len(provider.sent)
        provider.broker.deny("ceiling")
        with pytest.raises(anthropic.PermissionDeniedError, match=re.escape(WHY)) as denied:
            client.messages.create(**asked)
        assert denied.value.status_code == 403
        assert denied.value.body == {"type": "error", "error": {"type": "permission_error", "message": WHY}}
        assert len(provider.sent) == before
        assert len(provider.broker.asked) == 5, "it was tried once"
    rows = provider.rows("anthropic")
    assert {_counts(row) for row in rows if row.status == 200} == _counted(streamed, whole)
    assert [row.calls for row in rows if row.status == 403] == [1]


def test_openai(provider: Provider) -> None:
    import openai

    chat, responses = (provider.http(f"openai-{api}") for api in ("chat", "responses"))
    with chat, responses:
        client = openai.OpenAI(api_key=STAND_IN, base_url=f"{BASE}/v1", http_client=chat)
        streamed = provider.says("chat: streamed")
        chunks = list(client.chat.completions.create(model="gpt-5", messages=SAID, stream=True))
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.prompt_tokens == 1200
        head = _head(provider.sent[-1])
        assert head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")
        assert f"Authorization: Bearer {KEY}" in head
        whole = provider.says("chat: whole")
        said = client.chat.completions.create(model="gpt-5", messages=SAID)
        assert said.usage is not None
        assert said.usage.completion_tokens == 300
        provider.gives({"object": "list", "data": [{"id": "gpt-5", "object": "model", "created": 1, "owned_by": "x"}]})
        assert [model.id for model in client.models.list()] == ["gpt-5"]
        provider.broker.deny("ceiling")
        with pytest.raises(openai.PermissionDeniedError, match=re.escape(WHY)) as denied:
            client.chat.completions.create(model="gpt-5", messages=SAID)
        assert (denied.value.status_code, denied.value.code, denied.value.type) == (403, "ceiling", "permission_error")
        provider.broker.allow = True

        client = openai.OpenAI(api_key=STAND_IN, base_url=f"{BASE}/v1", http_client=responses)
        events = provider.says("responses: streamed")
        last = list(client.responses.create(model="gpt-5", input="Grüße", stream=True))[-1]
        assert last.type == "response.completed"
        assert last.response.usage is not None
        assert last.response.usage.output_tokens == 450
        once = provider.says("responses: whole")
        answered = client.responses.create(model="gpt-5", input="Grüße")
        assert answered.usage is not None
        assert answered.usage.input_tokens_details.cached_tokens == 1920
        provider.broker.deny("ceiling")
        with pytest.raises(openai.BadRequestError, match=re.escape(WHY)):
            client.responses.create(model="gpt-5", input="Grüße")
        tried = [one.session for one in provider.broker.asked]
        assert (tried.count("run-openai-chat"), tried.count("run-openai-responses")) == (4, 3)
    for api, streams in (("openai-chat", (streamed, whole)), ("openai-responses", (events, once))):
        rows = provider.rows(api)
        assert {_counts(row) for row in rows if row.status == 200} == _counted(*streams)
        assert sum(row.calls for row in rows) == 3


def test_google(provider: Provider) -> None:
    from google import genai
    from google.genai import errors, types

    with provider.http("gemini") as http:
        options = types.HttpOptions(base_url=BASE, httpx_client=http)
        client = genai.Client(api_key=STAND_IN, http_options=options)
        streamed = provider.says("gemini: a cache")
        pieces = list(client.models.generate_content_stream(model="gemini-3-pro", contents="Grüße"))
        told = pieces[-1].usage_metadata
        assert told is not None
        assert told.cached_content_token_count == 2048
        head = _head(provider.sent[-1])
        assert head.startswith("POST /v1/models/gemini-3-pro:streamGenerateContent?alt=sse HTTP/1.1\r\n")
        assert f"X-Goog-Api-Key: {KEY}" in head
        assert STAND_IN not in head
        whole = provider.says("gemini: whole")
        assert client.models.generate_content(model="gemini-3-pro", contents="Grüße").text
        provider.gives({"totalTokens": 9})
        assert client.models.count_tokens(model="gemini-3-pro", contents="Grüße").total_tokens == 9
        provider.broker.deny("ceiling")
        with pytest.raises(errors.ClientError, match=re.escape(WHY)) as denied:
            client.models.generate_content(model="gemini-3-pro", contents="Grüße")
        assert (denied.value.code, denied.value.status) == (403, "PERMISSION_DENIED")
        assert [one.session for one in provider.broker.asked].count("run-gemini") == 4
    rows = provider.rows("gemini")
    assert {_counts(row) for row in rows if row.status == 200} == _counted(streamed, whole)
    assert [row.calls for row in rows if row.status == 403] == [1]
