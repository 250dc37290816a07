"""The grammar of intents: its examples, and what holds for every text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxmaker_model import intents
from boxmaker_model.intents import Ask, Fetch, Forget, Note, Recall, Remember, read

SENTENCES = [
    ("remember that the launch moved to Thursday", Remember("memory", "the launch moved to Thursday")),
    ("Remember the launch moved to Thursday.", Remember("memory", "the launch moved to Thursday.")),
    ("please remember: backups run on Sunday", Remember("memory", "backups run on Sunday")),
    ("Can you please remember that Marta does invoices", Remember("memory", "Marta does invoices")),
    ("don't forget that the key is under the mat", Remember("memory", "the key is under the mat")),
    ("don’t forget it’s Ada’s turn", Remember("memory", "it’s Ada’s turn")),
    ("keep in mind that we ship on Fridays", Remember("memory", "we ship on Fridays")),
    ("remember that my name is Ada", Remember("user", "my name is Ada")),
    ("remember that I prefer UTC", Remember("user", "I prefer UTC")),
    ("remember I'm vegetarian", Remember("user", "I'm vegetarian")),
    ("remember to call me Ada", Remember("user", "to call me Ada")),
    ("remember that Ireland is an island", Remember("memory", "Ireland is an island")),
    ("remember that\n- one\n- two", Remember("memory", "- one\n- two")),
    ("note that example.org was down", Note("example.org was down")),
    ("Note: the pump is loud", Note("the pump is loud")),
    ("take a note: buy milk", Note("buy milk")),
    ("write down that the meter says 4711", Note("the meter says 4711")),
    ("what did I say about the launch?", Recall("launch")),
    ("What did we decide about the server room again?", Recall("server room")),
    ("what have I told you about my sister", Recall("sister")),
    ("hey, what did you say about backups?", Recall("backups")),
    ("do you remember the launch?", Recall("launch")),
    ("Do you remember what I said about the launch?", Recall("launch")),
    ("do you remember anything about invoices", Recall("invoices")),
    ("do you still remember when the launch is?", Recall("when the launch is")),
    ("remember what I said about the launch?", Recall("launch")),
    ("remember the launch?", Recall("launch")),
    ("recall the launch", Recall("launch")),
    ("can you recall what I said about invoices?", Recall("invoices")),
    ("what do you remember about Marta?", Recall("Marta")),
    ("did I mention the budget?", Recall("budget")),
    ("did I ever tell you about the budget?", Recall("budget")),
    ("when did I mention the budget last week?", Recall("budget")),
    ("search your memory for “invoices”", Recall("invoices")),
    ("what is in your memory about invoices?", Recall("invoices")),
    ("what was decided on pricing?", Recall("pricing")),
    ("forget the launch", Forget("launch")),
    ("forget that the launch moved to Thursday", Forget("launch moved to Thursday")),
    ("please forget about my birthday.", Forget("birthday")),
    ("forget what I said about the launch", Forget("launch")),
    ("remove the launch from your memory", Forget("launch")),
    ("delete my birthday from memory", Forget("birthday")),
    ("fetch https://example.org/notes", Fetch("https://example.org/notes")),
    ("fetch https://example.org/notes.", Fetch("https://example.org/notes")),
    ("read https://example.org/a?b=c#d, please", Fetch("https://example.org/a?b=c#d")),
    ("open the page at <https://example.org/>", Fetch("https://example.org/")),
    ("Please summarize https://en.wikipedia.org/wiki/Go_(game)", Fetch("https://en.wikipedia.org/wiki/Go_(game)")),
    ("read this (https://example.org/x) and tell me", Fetch("https://example.org/x")),
    ("fetch http://127.0.0.1:8080/x", Fetch("http://127.0.0.1:8080/x")),
    ("fetch example.org/notes", Fetch("https://example.org/notes")),
    ("记住猫叫米鲁", Remember("memory", "猫叫米鲁")),
    ("请记住：我叫Ada", Remember("user", "我叫Ada")),
    ("记得 发布改到星期四", Remember("memory", "发布改到星期四")),
    ("笔记：水泵很吵", Note("水泵很吵")),
    ("忘记猫", Forget("猫")),
    ("记住", Ask("remember")),
    ("忘记。", Ask("forget")),
    ("remember", Ask("remember")),
    ("Please remember this:", Ask("remember")),
    ("remember me", Ask("remember")),
    ("don’t forget", Ask("remember")),
    ("note that", Ask("note")),
    ("take a note", Ask("note")),
    ("recall", Ask("recall")),
    ("forget", Ask("forget")),
    ("forget about it!", Ask("forget")),
    ("fetch", Ask("fetch")),
]

NO_INTENT = [
    "", "   ", "Hello", "what is my name?", "When is the launch?", "who are you?", "do you remember me?",
    "fetch the ball", "记得猫叫什么吗？", "记得猫叫什么吗", "你好", "笔记本电脑坏了",
    "read notes.md", "open the door", "tell me about https://example.org", "a note that nobody reads",
    "I remember the launch", "my notebook is red", "notes are useful", "what should I remember?",
    "what did you say?", "unforgettable", "remove the door from its hinges",
]  # fmt: skip


@pytest.mark.parametrize(("sentence", "intent"), SENTENCES)
def test_a_sentence_of_the_grammar(sentence: str, intent: intents.Intent) -> None:
    assert read(sentence) == intent


@pytest.mark.parametrize("sentence", NO_INTENT)
def test_any_other_message_is_for_the_model(sentence: str) -> None:
    assert read(sentence) is None


@given(st.text(max_size=300))
def test_every_text_is_read(text: str) -> None:
    read(text)


FACTS = st.from_regex(r"[^\W_][\w ,;:()'’“”\n-]{2,200}[^\W_]", fullmatch=True).filter(
    lambda text: not text.casefold().startswith(("that", "what")) and not isinstance(read(f"remember {text}"), Ask)
)


@given(FACTS)
def test_a_fact_is_kept_word_for_word(fact: str) -> None:
    assert read(f"remember that {fact}") in {Remember("memory", fact), Remember("user", fact)}
    assert read(f"Note that {fact}") == Note(fact)


@given(FACTS)
def test_case_and_politeness_do_not_matter(fact: str) -> None:
    assert read(f"PLEASE, can you REMEMBER that {fact}") == read(f"remember that {fact}")


@given(st.text(max_size=200))
def test_a_question_writes_nothing(text: str) -> None:
    assert not isinstance(read(f"remember {text}?"), Remember | Note)
    assert not isinstance(read(f"note {text}?"), Remember | Note)


@given(st.from_regex(r"[a-z][a-z ]{0,600}[a-z]", fullmatch=True))
def test_a_query_fits_recall(topic: str) -> None:
    intent = read(f"what did I say about {topic}?")
    assert intent is None or (isinstance(intent, Recall) and 1 <= len(intent.query) <= 500)


@pytest.mark.parametrize("length", [intents.LONGEST_MESSAGE - 9, intents.LONGEST_MESSAGE])
def test_a_huge_message_is_no_intent(length: int) -> None:
    intent = read("remember " + "x" * length)
    assert (intent is None) == (length + 9 > intents.LONGEST_MESSAGE)
