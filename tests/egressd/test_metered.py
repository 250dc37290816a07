"""A sample of the recorded-shape streams through a running egressd: the bytes are the provider's, the row is its usage."""

import gzip
import random
from pathlib import Path

from proto.messages import egress
from tests.e2e.box import Box
from tests.egressd import http
from tests.egressd.meter.meters import pieces
from tests.egressd.streams import STREAMS, Stream
from tests.egressd.test_relay import Rows
from tests.fakes.upstream import USAGE, Script, answer, chunked, upstream

SAMPLE = [
    "chat: streamed",
    "chat: LiteLLM: a cache that was written for an hour",
    "chat: a megabyte beside the usage",
    "responses: caches for half an hour and for half a day",
    "messages: caches for both times",
    "messages: an error in the middle",
    "gemini: streamed",
    "gemini: a picture of a megabyte",
    "gemini: an array, crlf",
    "code assist: a cache",
]
PATHS = {
    "openai-chat": "/up/v1/chat/completions",
    "openai-responses": "/up/v1/responses",
    "anthropic": "/up/v1/messages?beta=true",
    "gemini": "/up/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse",
    "code-assist": "/up/v1internal:streamGenerateContent?alt=sse",
}


def _script(stream: Stream, body: bytes, encoding: str) -> Script:
    headers = f"Content-Encoding: {encoding}\r\n" if encoding else ""
    if stream.content_type == "application/json":
        return answer(body, headers=headers, content_type=stream.content_type)
    chosen = random.Random(stream.name)
    return chunked(pieces(body, [chosen.randrange(len(body)) for _ in range(7)]), headers=headers)


def _row(stream: Stream) -> egress.UsageRow:
    usage = stream.usage
    return egress.UsageRow(
        destination="up",
        model=stream.model or "",
        status=200,
        calls=1,
        billing="plan",
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_5m_tokens=usage.cache_write_5m_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        reasoning_tokens=usage.reasoning_tokens,
    )


def test_every_api_is_relayed_and_metered(home: Path, box: Box, rows: Rows) -> None:
    sample = [stream for stream in STREAMS if stream.name in SAMPLE]
    assert len(sample) == len(SAMPLE)
    with upstream(answer(USAGE)) as up:
        apis = ", ".join(f'"{api}"' for api in PATHS)
        (home / "grants.toml").write_text(f'[destinations.up]\nbase_url = "{up.url}"\napi = [{apis}]\n')
        for number, stream in enumerate(sample):
            for encoding, body in (("", stream.body), ("gzip", gzip.compress(stream.body))):
                session = f"chat-20261130-12000{number}-{'abcdef' if encoding else 'fedcba'}"
                up.script = _script(stream, body, encoding)
                answered = http.post(home, PATHS[stream.api], session=session)
                assert (answered.status, answered.body, answered.whole) == (200, body, True), stream.name
                assert rows(session=session) == [_row(stream)], stream.name
