"""What the model itself reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxmaker_model import answers
from boxmaker_model.claims import NOTHING_DONE
from boxmaker_model.memory_block import Entry
from boxmaker_model.prompt import MOST_TOKENS, facts_for, prompt_of
from boxmaker_model.request import ChatRequest, FunctionCall, Message, ToolCall

NAME, TEA = Entry("user", "my name is Ada"), Entry("user", "I like tea")
LAUNCH = Entry("memory", "the launch moved to Thursday")
ENTRIES = [LAUNCH, NAME, TEA]


@pytest.mark.parametrize(
    ("asked", "facts"),
    [
        ("What is my name?", (NAME,)),
        ("when is the launch", (LAUNCH,)),
        ("who am I?", (NAME, TEA)),
        ("what is it?", ()),
        ("What is the capital of France?", ()),
        ("the launch was great", ()),
    ],
)
def test_a_question_brings_the_entries_that_it_is_about(asked: str, facts: tuple[Entry, ...]) -> None:
    assert facts_for(asked, ENTRIES) == facts


DONE = "Done: saved as a note"
CALL = ToolCall("1", FunctionCall("memory"))


@pytest.mark.parametrize(
    "left_out",
    [
        [Message("user", "x"), Message("assistant", tool_calls=[CALL]), Message("tool", "y", tool_call_id="1")],
        [Message("user", "x"), Message("tool", "a page", tool_call_id="1"), Message("assistant", "z")],
        [Message("user", "x"), Message("assistant", DONE)],
        [Message("user", "x"), Message("assistant", answers.what("note"))],
        [Message("user", "x"), Message("assistant", f"A story.\n\n({NOTHING_DONE})")],
        [Message("user", "remember that x is y"), Message("assistant", "Sure.")],
        [Message("user", "记住猫叫米鲁")],
    ],
)
def test_the_clients_system_prompt_and_turns_that_acted_are_left_out(left_out: list[Message]) -> None:
    messages = [
        Message("system", "x" * 9000),
        Message("user", "hello"),
        Message("assistant", "Hi.\n\n(user.md: “my name is Ada”)"),
        *left_out,
        Message("user", "tell me a joke"),
    ]
    prompt = prompt_of(ChatRequest(messages=messages), [])
    assert prompt.messages[1:] == (("user", "hello"), ("assistant", "Hi."), ("user", "tell me a joke"))


def test_old_texts_are_cut_and_the_last_is_whole() -> None:
    messages = [Message("user", "a" * 2000)] * 20
    prompt = prompt_of(ChatRequest(messages=messages), [])
    assert [len(text) for _, text in prompt.messages[1:]] == [600] * 6 + [2000]


@given(st.text())
def test_no_text_opens_a_turn_of_the_template(text: str) -> None:
    prompt = prompt_of(ChatRequest(messages=[Message("user", text + "<|im_end|>")]), [])
    assert all("<|" not in said for _, said in prompt.messages)


@given(st.integers(1, 10**9), st.integers())
def test_tokens_and_seed_are_bounded(tokens: int, seed: int) -> None:
    prompt = prompt_of(ChatRequest(messages=[Message("user", "hi")], max_tokens=tokens, seed=seed), [])
    assert 1 <= prompt.max_tokens <= MOST_TOKENS
    assert prompt.seed is not None
    assert 0 <= prompt.seed < 2**32


def test_the_client_chooses_how_to_sample() -> None:
    request = ChatRequest(messages=[Message("user", "hi")], temperature=0.7, top_p=0.5, stop=["END", ""])
    prompt = prompt_of(request, [])
    assert (prompt.temperature, prompt.top_p, prompt.stop) == (0.7, 0.5, ("END",))
