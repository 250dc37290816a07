"""Tool calls over the real sockets: what is decided, where it runs, and which label comes back."""

from functools import partial
from pathlib import Path

import anyio
import pytest

from brokerd.grants.builtin import BUILT_IN
from brokerd.runtime.fetch import TOO_MANY_REDIRECTS
from proto.faults import FAULTS, Fault
from proto.labels import PRIVATE, PUBLIC, DataClass, Label
from proto.messages.egress import FetchFailed
from proto.reasons import REASONS
from tests.brokerd.running import S, label_of, running
from tests.fakes.memoryd import Refusal

pytestmark = pytest.mark.anyio

SECRET = Label(class_=DataClass.SECRET, untrusted=False)
UNTRUSTED = Label(class_=DataClass.PRIVATE, untrusted=True)
RECALL = {"query": "the launch"}
ADD = {"action": "add", "file": "memory", "text": "the launch moved"}


async def test_a_memory_call_reaches_memoryd_with_the_state_of_the_session(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open(label=UNTRUSTED)
        reply = await brokerd.tool("memory", ADD)
        assert (reply.ok, reply.text) == (True, "done: memory")
        (sent,) = brokerd.memoryd.calls
        assert (sent.request.session, sent.request.call, sent.request.tool) == (S, "c1", "memory")
        assert sent.request.arguments == ADD
        assert (sent.taint, sent.untrusted) == (DataClass.PRIVATE, True)
        (decision,) = brokerd.audit("decision")
        assert decision["grant"] == "builtin-memory"
        assert decision["grant_sha256"] == BUILT_IN[1].sha256
        assert decision["reasons"] == ["built-in"]
        assert decision["cites"] == []


async def test_the_result_has_the_stricter_label_of_grant_and_runtime_and_the_session_takes_it(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open(label=PUBLIC)
        brokerd.memoryd.label = PUBLIC  # laxer than the grant's private
        assert label_of(await brokerd.tool("recall", RECALL)) == PRIVATE
        assert brokerd.stored_label() == PRIVATE
        brokerd.memoryd.label = UNTRUSTED  # stricter
        assert label_of(await brokerd.tool("recall", RECALL)) == UNTRUSTED
        assert brokerd.stored_label() == UNTRUSTED
        brokerd.memoryd.label = SECRET
        assert label_of(await brokerd.tool("recall", RECALL)) == SECRET
        both = Label(class_=DataClass.SECRET, untrusted=True)
        assert brokerd.stored_label() == both
        assert [Label(n.class_, n.untrusted) for n in brokerd.egressd.notices] == [PRIVATE, UNTRUSTED, both]
        assert brokerd.audit("result")[-1]["session_label"] == {"class": "secret", "untrusted": True}


async def test_a_memoryd_that_is_not_there_fails_the_call_with_the_fixed_sentence(home: Path) -> None:
    async with running(home, memoryd=False, config="[memory]\ntimeout_s = 0.3\n") as brokerd:
        await brokerd.open()
        reply = await brokerd.tool("recall", RECALL)
        assert (reply.ok, reply.text) == (False, FAULTS["memoryd-unreachable"].sentence)
        assert label_of(reply) == PRIVATE


async def test_a_memoryd_that_never_answers_fails_the_call_in_time(home: Path) -> None:
    async with running(home, config="[memory]\ntimeout_s = 0.3\n") as brokerd:
        brokerd.memoryd.gate = anyio.Event()
        await brokerd.open()
        reply = await brokerd.tool("recall", RECALL)
        assert (reply.ok, reply.text) == (False, FAULTS["memoryd-unreachable"].sentence)
        brokerd.memoryd.gate.set()


async def test_a_request_that_was_sent_is_never_sent_twice(home: Path) -> None:
    async with running(home, config="[memory]\ntimeout_s = 0.5\n") as brokerd:
        brokerd.memoryd.silent = True
        await brokerd.open()
        reply = await brokerd.tool("recall", RECALL)
        assert (reply.ok, reply.text) == (False, FAULTS["memoryd-unreachable"].sentence)
        assert len(brokerd.memoryd.calls) == 1


async def test_a_fault_of_memoryd_is_told_with_its_runbook(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        brokerd.memoryd.answer = lambda _: Refusal("memory-index-damaged")
        reply = await brokerd.tool("recall", RECALL)
        assert (reply.ok, reply.text) == (False, str(Fault("memory-index-damaged")))


async def test_a_refusal_of_memoryd_is_passed_on_as_it_is(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        brokerd.memoryd.answer = lambda call: brokerd.memoryd.response(call, "no", PRIVATE, ok=False)
        reply = await brokerd.tool("memory", ADD)
        assert (reply.ok, reply.text, label_of(reply)) == (False, "no", PRIVATE)


@pytest.mark.parametrize("session", ["chat-unknown", S])
async def test_a_session_that_is_not_open_is_refused(home: Path, session: str) -> None:
    async with running(home) as brokerd:
        reply = await brokerd.tool("recall", RECALL, session=session)
        assert (reply.ok, reply.text, label_of(reply)) == (False, REASONS["session-not-open"], PRIVATE)
        assert brokerd.memoryd.calls == []
        assert brokerd.audit("decision")[-1]["reasons"] == ["session-not-open"]


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("no_such_tool", {}, "tool-unknown"),
        ("run_command", {"command": "ls"}, "runtime-absent"),
        ("read_file", {"path": "/etc/passwd"}, "runtime-absent"),
        ("list_files", {"path": "/"}, "runtime-absent"),
        ("http_fetch", {"url": "https://example.org/"}, "no-grant"),
    ],
)
async def test_what_nothing_allows_is_refused_with_its_sentence(
    home: Path, tool: str, arguments: dict[str, str], reason: str
) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        reply = await brokerd.tool(tool, arguments)
        assert (reply.ok, reply.text, label_of(reply)) == (False, REASONS[reason], PRIVATE)
        assert reason in brokerd.audit("decision")[-1]["reasons"]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"query": ""}, {"query": "x", "k": 11}, {"query": "x", "more": 1}, {"query": "x" * 501}, {"query": 7}],
)
async def test_arguments_without_the_tools_shape_are_refused_and_it_is_said_where(
    home: Path, arguments: dict[str, object]
) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        reply = await brokerd.tool("recall", arguments)
        assert not reply.ok
        assert reply.text.startswith(REASONS["arguments"] + ": ")
        assert brokerd.memoryd.calls == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"action": "add", "file": "soul", "text": "x"},
        {"action": "add", "file": "memory"},
        {"action": "replace", "file": "memory", "text": "x"},
        {"action": "note", "text": "x" * 1001},
        {"action": "note", "text": ""},
        {"action": "consolidate", "file": "memory", "entries": [{"old": "a", "keep": True, "drop": True}]},
        {"action": "consolidate", "file": "memory", "entries": [{"old": "a"}]},
        {"action": "forget", "text": "x"},
        {"text": "x"},
    ],
)
async def test_a_memory_call_without_its_shape_never_reaches_memoryd(home: Path, arguments: dict[str, object]) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        assert (await brokerd.tool("memory", arguments)).text.startswith(REASONS["arguments"] + ": ")
        assert brokerd.memoryd.calls == []


async def test_an_invalid_grant_denies_every_call_the_memory_tools_too(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        brokerd.write("grants/web.toml", "tool = 'http_fetch'\n")
        for tool, arguments in (("recall", RECALL), ("http_fetch", {"url": "https://example.org/"})):
            reply = await brokerd.tool(tool, arguments)
            assert (reply.ok, reply.text) == (False, FAULTS["grants-invalid"].sentence)
        (home / "grants/web.toml").unlink()
        assert (await brokerd.tool("recall", RECALL)).ok


async def test_a_page_comes_back_under_the_grants_label(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"], untrusted=True)
        brokerd.egressd.page("https://example.org/a", "the launch moved")
        await brokerd.open()
        reply = await brokerd.fetch("https://example.org/a")
        assert reply.ok
        assert reply.text == "https://example.org/a · 200 · text/html\n\nthe launch moved"
        assert label_of(reply) == UNTRUSTED
        assert brokerd.stored_label() == UNTRUSTED
        (fetch,) = brokerd.egressd.fetches
        assert (fetch.session, fetch.call, fetch.loopback) == (S, "c1", False)


async def test_a_fetch_that_fails_before_anything_was_reached_taints_nothing(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"], untrusted=True)
        await brokerd.open()
        reply = await brokerd.fetch("https://example.org/nowhere")
        assert (reply.ok, reply.text) == (False, "the name does not resolve")
        assert brokerd.stored_label() == PRIVATE


async def test_each_redirect_is_decided_anew(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org", "*.example.org"])
        brokerd.egressd.redirect("https://example.org/", "https://www.example.org/a")
        brokerd.egressd.redirect("https://www.example.org/a", "/b")
        brokerd.egressd.page("https://www.example.org/b")
        await brokerd.open()
        assert (await brokerd.fetch("https://example.org/")).ok
        decisions = brokerd.audit("decision")
        assert [decision.get("hop", 0) for decision in decisions] == [0, 1, 2]
        assert decisions[2]["arguments"] == '{"url":"https://www.example.org/b"}'


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("https://elsewhere.example/", "host"),
        ("http://example.org/", "scheme"),
        ("http://127.0.0.1/", "scheme"),
        ("https://169.254.169.254/latest/meta-data", "host"),
    ],
)
async def test_a_redirect_that_the_grant_does_not_cover_is_refused_and_not_fetched(
    home: Path, location: str, reason: str
) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"])
        brokerd.egressd.redirect("https://example.org/", location)
        await brokerd.open()
        reply = await brokerd.fetch("https://example.org/")
        assert (reply.ok, reply.text, label_of(reply)) == (False, REASONS[reason], PRIVATE)
        assert [fetch.url for fetch in brokerd.egressd.fetches] == ["https://example.org/"]


async def test_five_redirects_are_followed_and_no_more(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"])
        for number in range(6):
            brokerd.egressd.redirect(f"https://example.org/{number}", f"/{number + 1}")
        brokerd.egressd.page("https://example.org/6")
        await brokerd.open()
        reply = await brokerd.fetch("https://example.org/0")
        assert (reply.ok, reply.text) == (False, TOO_MANY_REDIRECTS)
        assert len(brokerd.egressd.fetches) == 6
        assert (await brokerd.fetch("https://example.org/1")).ok


async def test_a_failure_after_a_redirect_has_the_grants_label(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"], untrusted=True)
        brokerd.egressd.redirect("https://example.org/", "/next")
        brokerd.egressd.pages["https://example.org/next"] = FetchFailed(reason="timeout", message="too slow")
        await brokerd.open()
        assert label_of(await brokerd.fetch("https://example.org/")) == UNTRUSTED


async def test_what_is_fetched_is_the_url_that_was_decided_on(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"])
        brokerd.egressd.page("https://example.org/a%20b")
        await brokerd.open()
        assert (await brokerd.fetch("HTTPS://EXAMPLE.org.:443/a%20b#part")).ok
        for url in (
            "https://example.org@evil.example/",
            "https://evil.example\\@example.org/",
            "https://example.org /",
        ):
            assert (await brokerd.fetch(url)).text.startswith(REASONS["arguments"])
        assert [fetch.url for fetch in brokerd.egressd.fetches] == ["https://example.org/a%20b"]


async def test_loopback_goes_only_where_a_grant_says_so(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["127.0.0.1"])
        brokerd.egressd.page("http://127.0.0.1:8080/")
        await brokerd.open()
        assert (await brokerd.fetch("http://127.0.0.1:8080/")).text == REASONS["scheme"]
        brokerd.grant("web", hosts=["127.0.0.1"], loopback=True)
        assert (await brokerd.fetch("http://127.0.0.1:8080/")).ok
        assert brokerd.egressd.fetches[-1].loopback
        assert (await brokerd.fetch("http://example.org/")).text == REASONS["scheme"]


async def test_a_label_above_the_grants_is_refused(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"], max_taint="private")
        await brokerd.open(label=SECRET)
        assert (await brokerd.fetch("https://example.org/")).text == REASONS["taint"]
        assert brokerd.egressd.fetches == []


async def test_a_write_decided_before_a_fetch_ended_is_applied_after_it_under_the_new_label(home: Path) -> None:
    """Two calls of one turn (architecture, point 3)."""
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"], untrusted=True)
        brokerd.egressd.page("https://example.org/")
        brokerd.egressd.gate = anyio.Event()
        await brokerd.open()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(brokerd.fetch, "https://example.org/")
            await brokerd.egressd.began.wait()
            tasks.start_soon(brokerd.tool, "memory", ADD)
            await anyio.sleep(0.1)
            assert brokerd.memoryd.calls == []
            brokerd.egressd.gate.set()
        (write,) = brokerd.memoryd.calls
        assert (write.taint, write.untrusted) == (DataClass.PRIVATE, True)


async def test_a_call_whose_requester_hung_up_before_its_turn_is_not_begun(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        await brokerd.open()
        brokerd.memoryd.gate = anyio.Event()
        tasks.start_soon(brokerd.tool, "recall", RECALL)
        await brokerd.memoryd.began.wait()
        for call_id in ("gone", "stays"):
            stays = partial(brokerd.tool, "memory", ADD, call_id=call_id)
            if call_id == "stays":
                tasks.start_soon(stays)
                await anyio.sleep(0.1)
            else:
                with anyio.move_on_after(0.2):
                    await stays()
        brokerd.memoryd.gate.set()
        with anyio.fail_after(20):
            while len(brokerd.memoryd.calls) < 2:  # noqa: ASYNC110  (another task's)
                await anyio.sleep(0.02)
        assert [sent.request.call for sent in brokerd.memoryd.calls] == ["c1", "stays"]
        assert "gone" not in [line["call"] for line in brokerd.audit("decision")]


async def test_the_calls_of_another_session_do_not_wait(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"])
        brokerd.egressd.page("https://example.org/")
        brokerd.egressd.gate = anyio.Event()
        await brokerd.open()
        await brokerd.open("chat-2")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(brokerd.fetch, "https://example.org/")
            await brokerd.egressd.began.wait()
            assert (await brokerd.tool("recall", RECALL, session="chat-2")).ok
            brokerd.egressd.gate.set()


async def test_the_decision_is_on_disk_before_the_call_runs_and_the_label_before_its_result(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        seen: list[int] = []

        def look(call: object) -> object:
            seen.append(len(brokerd.audit("decision")))
            return brokerd.memoryd.response(brokerd.memoryd.calls[-1], "x", UNTRUSTED)

        brokerd.memoryd.answer = look  # type: ignore[assignment]
        await brokerd.tool("recall", RECALL)
        assert seen == [1]
        assert brokerd.stored_label() == UNTRUSTED


async def test_egressd_is_told_before_the_result_that_raised_the_label_is_handed_out(home: Path) -> None:
    async with running(home, config="[egress]\nnotice_s = 0.3\n") as brokerd:
        await brokerd.open()
        brokerd.memoryd.label = UNTRUSTED
        await brokerd.tool("recall", RECALL)
        assert [notice.untrusted for notice in brokerd.egressd.notices] == [True]
        brokerd.egressd.deaf = True
        brokerd.memoryd.label = SECRET
        reply = await brokerd.tool("recall", RECALL)
        assert (reply.ok, reply.text) == (False, FAULTS["egressd-unreachable"].sentence)
        assert label_of(reply) == PRIVATE
        assert brokerd.stored_label() == Label(class_=DataClass.SECRET, untrusted=True)
        assert len(brokerd.egressd.notices) == 2
