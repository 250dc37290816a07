"""Approvals as playbooks: asked, answered, lapsed, void; bound to what was asked and to the label."""

from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import pytest

from proto.labels import PRIVATE, PUBLIC, DataClass, Label
from proto.messages.broker import Approvals, ApprovalsReply, SessionClose, SessionState, ToolRequest
from proto.reasons import REASONS
from proto.role.call import call
from tests.brokerd.asking import URL, answer, asked, prepare, unknown
from tests.brokerd.running import S, Wanted, label_of, running

pytestmark = pytest.mark.anyio

UNTRUSTED = Label(class_=DataClass.PRIVATE, untrusted=True)
ANSWERS = ("owner-broker", "loop-broker")


@pytest.mark.parametrize("via", ANSWERS)
async def test_an_allowed_call_is_decided_again_and_runs(home: Path, via: str) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks)
        assert brokerd.egressd.fetches == []
        assert wanted.questions[0].text == f"http_fetch {URL}"
        await answer(brokerd, approval, allow=True, via=via)
        assert (await wanted.answer()).ok
        question, answered = brokerd.audit("approval")
        assert (question["event"], answered["event"]) == ("asked", "answered")
        assert (answered["outcome"], answered["by"], answered["via"]) == ("allowed", "me", via)
        first, second = brokerd.audit("decision")
        assert (first["verdict"], first["reasons"]) == ("ask", ["asks"])
        assert (second["verdict"], second["reasons"], second["approval"]) == (
            "allow",
            ["approved", "granted"],
            approval,
        )


@pytest.mark.parametrize("via", ANSWERS)
async def test_a_refused_call_does_not_run(home: Path, via: str) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks)
        await answer(brokerd, approval, allow=False, via=via)
        reply = await wanted.answer()
        assert (reply.ok, reply.text, label_of(reply)) == (False, REASONS["denied"], PRIVATE)
        assert brokerd.egressd.fetches == []


async def test_an_unanswered_call_lapses_as_a_denial(home: Path) -> None:
    async with running(home, config="[approvals]\nlapse_s = 0.3\n") as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks)
        reply = await wanted.answer()
        assert (reply.ok, reply.text) == (False, REASONS["lapsed"])
        assert brokerd.audit("approval")[-1]["event"] == "lapsed"
        await unknown(brokerd, approval)
        assert brokerd.egressd.fetches == []


async def test_an_answer_counts_once_and_only_for_what_waits(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks)
        await answer(brokerd, approval, allow=False)
        await unknown(brokerd, approval)
        await unknown(brokerd, "ap-0123456789abcdef")
        await unknown(brokerd, "ap-0123456789abcdef", "loop-broker")
        assert not (await wanted.answer()).ok


async def test_a_label_that_rises_makes_it_void(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks)
        await brokerd.raise_label(UNTRUSTED)
        reply = await wanted.answer()
        assert (reply.ok, reply.text) == (False, REASONS["label-rose"])
        await unknown(brokerd, approval)
        last = brokerd.audit("approval")[-1]
        assert (last["event"], last["outcome"]) == ("void", "label-rose")


async def test_other_calls_of_the_session_go_on_and_one_of_them_can_make_it_void(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted, _ = await asked(brokerd, tasks)
        assert (await brokerd.tool("recall", {"query": "x"}, call_id="c2")).ok
        assert wanted.response is None
        brokerd.memoryd.label = UNTRUSTED
        assert (await brokerd.tool("recall", {"query": "x"}, call_id="c3")).ok
        assert (await wanted.answer()).text == REASONS["label-rose"]


async def test_a_label_that_rises_after_the_answer_and_before_the_call_makes_it_void_too(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks)
        brokerd.memoryd.gate = anyio.Event()
        brokerd.memoryd.label = UNTRUSTED
        tasks.start_soon(partial(brokerd.tool, "recall", {"query": "x"}, call_id="c2"))
        await brokerd.memoryd.began.wait()
        await answer(brokerd, approval, allow=True)
        brokerd.memoryd.gate.set()
        assert (await wanted.answer()).text == REASONS["label-rose"]
        assert brokerd.audit("decision")[-1]["reasons"] == ["label-rose"]
        assert brokerd.egressd.fetches == []


async def test_two_can_wait_and_each_gets_its_own_answer(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        brokerd.egressd.page("https://example.org/2", "two")
        await brokerd.open()
        one, first = await asked(brokerd, tasks)
        two, second = await asked(brokerd, tasks, "https://example.org/2")
        listed: ApprovalsReply = await brokerd.owner(Approvals(), ApprovalsReply)
        assert [row.approval for row in listed.approvals] == [first, second]
        await answer(brokerd, second, allow=False)
        assert (await two.answer()).text == REASONS["denied"]
        await answer(brokerd, first, allow=True)
        assert (await one.answer()).ok
        assert [fetch.url for fetch in brokerd.egressd.fetches] == [URL]
        assert (await brokerd.owner(Approvals(), ApprovalsReply)).approvals == []


async def test_a_requester_that_hangs_up_makes_it_void(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        async with anyio.create_task_group() as inner:
            _, approval = await asked(brokerd, inner)
            inner.cancel_scope.cancel()
        with anyio.fail_after(10):
            while (await brokerd.owner(Approvals(), ApprovalsReply)).approvals:  # noqa: ASYNC110  (another process's)
                await anyio.sleep(0.05)
        await unknown(brokerd, approval)
        assert brokerd.audit("approval")[-1]["outcome"] == "gone"
        assert brokerd.egressd.fetches == []
        tasks.cancel_scope.cancel()


async def test_closing_the_session_makes_it_void(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open(label=PUBLIC)
        wanted, _ = await asked(brokerd, tasks)
        await call(brokerd.loop, SessionClose(session=S), SessionState)
        assert (await wanted.answer()).text == REASONS["session-not-open"]
        assert brokerd.stored_label() == PUBLIC  # the final label, which the refusal no longer raises


async def test_a_grant_that_was_taken_away_meanwhile_holds_when_it_is_decided_again(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks)
        brokerd.grant("web", mode="deny")
        await answer(brokerd, approval, allow=True)
        assert (await wanted.answer()).text == REASONS["grant-denies"]
        assert brokerd.egressd.fetches == []


@pytest.mark.parametrize("hosts", [["*"], ["*.example.org", "*"], ["*.example.org"]])
async def test_an_untrusted_session_is_asked_for_a_host_that_is_not_named_exactly(home: Path, hosts: list[str]) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        brokerd.grant("web", mode="auto", hosts=hosts)
        url = "https://www.example.org/"
        brokerd.egressd.page(url)
        await brokerd.open("chat-clean")
        assert (await brokerd.fetch(url, session="chat-clean")).ok
        await brokerd.open(label=UNTRUSTED)
        wanted, approval = await asked(brokerd, tasks, url)
        assert brokerd.audit("decision")[-1]["reasons"] == ["untrusted-host"]
        await answer(brokerd, approval, allow=True)
        assert (await wanted.answer()).ok
        brokerd.grant("exact", mode="auto", hosts=["www.example.org"])
        assert (await brokerd.fetch(url)).ok


async def test_a_redirect_on_the_host_that_was_allowed_is_not_asked_again_and_one_elsewhere_is(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        brokerd.grant("web", mode="ask")
        brokerd.egressd.redirect(URL, "/moved")
        brokerd.egressd.redirect("https://example.org/moved", "https://www.example.org/")
        brokerd.egressd.page("https://www.example.org/")
        await brokerd.open()
        wanted, first = await asked(brokerd, tasks)
        await answer(brokerd, first, allow=True)
        second = await wanted.question(2)
        assert wanted.questions[1].text == "http_fetch, redirected to https://www.example.org/"
        assert [fetch.url for fetch in brokerd.egressd.fetches] == [URL, "https://example.org/moved"]
        await answer(brokerd, second, allow=True)
        assert (await wanted.answer()).ok
        assert len(brokerd.egressd.fetches) == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("http://localhost:3000/", "http://localhost:9000/admin/delete?x=1"),
        ("http://localhost:3000/", "https://localhost:3000/"),
        ("https://localhost/", "http://localhost/"),
        ("https://localhost/", "https://127.0.0.1/"),
    ],
    ids=["port", "scheme", "scheme and port", "host"],
)
async def test_a_redirect_to_another_origin_is_asked_again(home: Path, first: str, second: str) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        brokerd.grant("web", mode="ask", hosts=["localhost", "127.0.0.1"], loopback=True)
        brokerd.egressd.redirect(first, second)
        brokerd.egressd.page(second)
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks, first)
        await answer(brokerd, approval, allow=True)
        again = await wanted.question(2)
        assert wanted.questions[1].text == f"http_fetch, redirected to {second}"
        await answer(brokerd, again, allow=False)
        assert (await wanted.answer()).text == REASONS["denied"]
        assert [fetch.url for fetch in brokerd.egressd.fetches] == [first]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (
            "https://\u0430\u0440\u0440\u04cf\u0435.com/login",
            "https://xn--80ak6aa92e.com/login (written https://\\u{430}\\u{440}\\u{440}\\u{4cf}\\u{435}.com/login)",
        ),
        ("HTTPS://Example.org:443/a", "https://example.org/a (written HTTPS://Example.org:443/a)"),
        ("https://example.org/\u202e", "https://example.org/%E2%80%AE (written https://example.org/\\u{202e})"),
        ("https://example.org/a?b=c", "https://example.org/a?b=c"),
    ],
    ids=["looks alike", "case", "hidden", "plain"],
)
async def test_the_owner_reads_the_url_that_will_be_asked_for(home: Path, written: str, shown: str) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        brokerd.grant("web", mode="ask")
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks, written)
        assert wanted.questions[0].text == f"http_fetch {shown}"
        await answer(brokerd, approval, allow=True)
        await wanted.answer()
        assert brokerd.egressd.fetches[0].url == shown.partition(" ")[0]


async def test_what_the_owner_reads_is_escaped(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        brokerd.write("policy/ask.rego", 'package boxmaker.root\n\nimport rego.v1\n\nask if input.tool == "memory"\n')
        await brokerd.open()
        wanted = Wanted()
        text = "a\u202eb\x1b[31m\nc"
        tasks.start_soon(brokerd.asking, "memory", {"action": "note", "text": text}, wanted)
        approval = await wanted.question()
        shown = wanted.questions[0].text
        assert shown.isprintable()
        assert "\\u{202e}" in shown
        await answer(brokerd, approval, allow=True)
        assert (await wanted.answer()).ok
        assert brokerd.memoryd.calls[0].request.arguments["text"] == text


async def test_loopd_answers_only_for_its_own_sessions(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        path = home / f"state/brokerd/sessions/{S}.json"
        path.write_text(path.read_text().replace("loop-broker", "launcher-broker"))
        tasks.cancel_scope.cancel()
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        wanted, approval = await asked(brokerd, tasks)
        await unknown(brokerd, approval, "loop-broker")
        await answer(brokerd, approval, allow=False)
        assert not (await wanted.answer()).ok


async def test_a_call_is_answered_without_a_question_when_nothing_asks(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        request = ToolRequest(session=S, call="c", tool="recall", arguments={"query": "x"})
        wanted = Wanted()
        await brokerd.asking("recall", request.arguments, wanted)
        assert wanted.questions == []
        assert wanted.response is not None
