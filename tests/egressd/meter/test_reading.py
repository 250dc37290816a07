"""What cannot hold a usage or a model is not decoded, and what is no name is not taken for one."""

import json

from egressd.meter.openai_chat import OpenAiChat
from tests.egressd.meter.meters import read
from tests.egressd.streams.openai_chat import LAST, text
from tests.egressd.streams.shape import data


class _Counting(OpenAiChat):
    def __init__(self) -> None:
        super().__init__()
        self.taken = 0

    def _take(self, text: bytes) -> None:
        self.taken += 1
        super()._take(text)


def test_of_a_thousand_events_the_first_and_the_last_are_decoded() -> None:
    meter = _Counting()
    meter.feed(b": hi\n\n" + data(*(text("a") for _ in range(1000)), LAST, done=True))
    assert (meter.taken, meter.usage.input_tokens) == (2, 1200)


def test_a_text_is_no_name_of_a_model() -> None:
    for name, taken in (("m" * 256, "m" * 256), ("m" * 257, None), ("", None), (["m"], None)):
        assert read("openai-chat", data({"model": name}))[1] == taken


def test_a_prompt_that_was_blocked_had_no_answer() -> None:
    def told(**counts: int) -> int | None:
        usage = {f"{name}TokenCount": count for name, count in counts.items()}
        blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}
        return read("gemini", json.dumps(blocked).encode())[0].output_tokens

    assert told(prompt=9, total=9) == 0
    assert told(prompt=9, toolUsePrompt=3, total=12) == 0
    assert told(prompt=9, total=12) is None
    assert told(prompt=9) is None
    assert told(total=9) is None


def test_an_answer_that_is_costly_to_read_is_not_metered() -> None:
    body = b'{"model":"m","usage":{"prompt_tokens":3,"completion_tokens":4},"x":[%s]}'
    assert read("openai-chat", body % b",".join([b"[]"] * 90_000))[0].output_tokens == 4
    assert read("openai-chat", body % b",".join([b"[]"] * 5_000_000))[0].output_tokens is None
