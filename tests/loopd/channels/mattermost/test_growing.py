"""An answer that grows, as a playbook; and what waits for the owner."""

import re

from hypothesis import given
from hypothesis import strategies as st

from loopd.channels.mattermost.asked import Asked, Question
from loopd.channels.mattermost.growing import ELSEWHERE, Create, Edit, Growing
from loopd.channels.mattermost.shown import block, plain

OWNER = "o" * 26


class Thread:
    """The posts that were made of a `Growing`."""

    def __init__(self, growing: Growing) -> None:
        self.growing = growing
        self.posts: dict[str, str] = {}
        self.steps = 0

    def do(self, now_s: float = 0.0) -> bool:
        """Do the next step that may be done now."""
        step = self.growing.next()
        if step is None or self.growing.wait_s(now_s) > 0:
            return False
        post = f"post-{step.part}" if isinstance(step, Create) else step.post
        assert isinstance(step, Create) or self.posts[post] != step.text
        self.posts[post] = step.text
        self.growing.made(step, post, now_s)
        self.steps += 1
        return True


def test_the_first_words_are_posted_at_once_and_changed_at_its_pace() -> None:
    growing = Growing(1000, 1.0)
    assert growing.next() is None
    growing.say("The ")
    assert growing.next() == Create(1, "The")
    growing.made(Create(1, "The"), "p", 5.0)
    growing.say("answer")
    assert growing.wait_s(5.4) == 0.6000000000000005 or abs(growing.wait_s(5.4) - 0.6) < 1e-9
    assert growing.next() == Edit(1, "p", "The answer")
    growing.end("The answer.")
    assert growing.wait_s(5.4) == 0.0
    growing.made(Edit(1, "p", "The answer."), "p", 5.5)
    assert growing.is_over


def test_a_tool_is_shown_while_it_runs_and_not_in_the_end() -> None:
    growing = Growing(1000, 1.0)
    growing.say("Let me look.")
    growing.do("recall")
    assert growing.next() == Create(1, "Let me look.\n\n*recall …*")
    growing.end("Found.")
    assert growing.next() == Create(1, "Found.")


def test_a_post_that_the_final_form_does_not_need_says_so() -> None:
    thread = Thread(Growing(400, 0.0))
    thread.growing.say("word " * 150)
    while thread.do():
        pass
    assert len(thread.posts) == 2
    thread.growing.end("short")
    while thread.do():
        pass
    assert list(thread.posts.values()) == ["short", ELSEWHERE]
    assert thread.growing.is_over


def test_what_is_in_the_thread_already_is_not_made_again() -> None:
    growing = Growing(400, 0.0)
    growing.found(1, "p", "The answer")
    growing.end("The answer")
    assert growing.is_over


def test_a_post_that_takes_no_other_text_stays_and_the_final_form_is_posted_behind_it() -> None:
    thread = Thread(Growing(400, 0.0))
    thread.growing.do("recall")
    thread.do()
    thread.growing.say("Let me")
    thread.growing.stuck()
    thread.growing.say(" think.")
    assert thread.growing.next() is None
    thread.growing.end("word " * 150)
    while thread.do():
        pass
    assert thread.growing.is_over
    assert list(thread.posts) == ["post-1", "post-2", "post-3"]
    assert "".join(thread.posts[name] for name in ("post-2", "post-3")) == "word " * 150


def test_a_final_form_that_stands_behind_such_a_post_is_not_posted_again() -> None:
    growing = Growing(400, 0.0)
    growing.found(1, "p", "*recall …*")
    growing.found(2, "q", "The answer")
    growing.end("The answer")
    assert growing.next() == Edit(1, "p", "The answer")
    growing.stuck()
    assert growing.is_over


@given(st.lists(st.text(max_size=300), max_size=12), st.text(min_size=1, max_size=1500))
def test_in_the_end_the_thread_holds_the_answer_and_nothing_is_made_twice(words: list[str], final: str) -> None:
    thread = Thread(Growing(400, 1.0))
    for number, some in enumerate(words):
        thread.growing.say(some)
        thread.do(number * 0.4)
    thread.growing.end(final)
    while thread.do(0.0):
        assert thread.steps < 100
    texts = [thread.posts[f"post-{number + 1}"] for number in range(len(thread.posts))]
    assert [text for text in texts if text != ELSEWHERE or final == ELSEWHERE]
    assert len(thread.posts) == len(set(thread.posts))
    assert thread.growing.is_over


def asked() -> Asked:
    found = Asked(OWNER)
    found.ask(Question("ap-1", "thread", ""))
    found.put("ap-1", "post", 10)
    return found


def test_an_answer_counts_once_and_from_the_owner_alone() -> None:
    box = asked()
    question = box.of_post("post")
    assert question is not None
    assert question == box.of_thread("thread", 10)
    assert box.answer(question, "somebody") == "foreign"
    assert box.answer(question, OWNER) is None
    assert box.answer(question, OWNER) == "repeated"
    box.again("ap-1")
    assert box.answer(question, OWNER) is None


def test_an_answer_after_the_end_is_late_and_a_new_question_comes_first() -> None:
    box = asked()
    box.close("ap-1")
    question = box.of_thread("thread", 11)
    assert question is not None
    assert box.answer(question, OWNER) == "late"
    assert box.open() == []
    box.ask(Question("ap-2", "thread", ""))
    assert box.is_being_put("thread")
    box.put("ap-2", "later", 20)
    assert not box.is_being_put("thread")
    newest = box.of_thread("thread", 20)
    assert newest is not None
    assert newest.approval == "ap-2"
    assert box.of_thread("elsewhere", 20) is None


def test_a_word_is_no_answer_to_what_was_asked_after_it() -> None:
    box = asked()
    assert box.of_thread("thread", 9) is None
    box.close("ap-1")
    box.ask(Question("ap-2", "thread", "later", 20))
    assert box.of_thread("thread", 19) == box.of_post("post")


def test_questions_are_not_kept_for_ever() -> None:
    box = Asked(OWNER)
    for number in range(1500):
        box.ask(Question(f"ap-{number}", "t", f"p-{number}"))
        box.close(f"ap-{number}")
    assert box.of_post("p-0") is None
    assert box.of_post("p-1499") is not None


@given(st.text(st.sampled_from("`@ab \n*_"), max_size=60))
def test_what_is_shown_mentions_nobody_and_its_fence_is_its_own(text: str) -> None:
    shown = block(text)
    fence, *inside, last = shown.split("\n")
    assert fence == last + "text"
    assert not any(line.strip() == last for line in inside)
    assert "@a" not in shown
    assert "@b" not in plain(text)
    assert "\n" not in plain(text)


def test_a_line_of_words_has_no_sign_that_the_server_s_clients_would_show_beside_it() -> None:
    assert plain("2026-11-30T17:00Z") == "2026\\-11\\-30T17:\u206000Z"
    assert plain("(runbook: model-error)") == "\\(runbook: model\\-error\\)"
    assert plain("http://x <b> &lt; $1$ :smile:") == "http:\u2060//x <\u2060b\\> &\u2060lt; &#36;1&#36; :\u2060smile:"


@given(st.text(st.sampled_from("\\:<>&$^`@a \n*_-."), max_size=60))
def test_a_backslash_stands_only_before_what_the_web_client_takes_one_before(text: str) -> None:
    assert re.sub(r"\\[\\`*_{}\[\]()#+\-.!|~>]", "", plain(text)).count("\\") == 0
