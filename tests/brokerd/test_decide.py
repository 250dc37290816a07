"""What no policy can allow, whatever a root's own modules say; and faults that are denials."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from proto.faults import FAULTS
from proto.labels import PRIVATE, DataClass, Label
from proto.messages.broker import ApprovalAnswer
from proto.messages.wire import Ok
from proto.reasons import REASONS
from tests.brokerd.running import Wanted, label_of, running

pytestmark = pytest.mark.anyio


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def looping(path: Path) -> None:
    path.symlink_to(path.name)


def a_file(path: Path) -> None:
    path.write_text("x")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 30)


def nested(path: Path) -> None:
    path.write_bytes(b"a=" + b"[" * 60_000)


SPOILED = (dangling, looping, a_folder, a_fifo, a_device, huge, nested)
FOLDERS = (dangling, looping, a_file, a_fifo)
ALL = """package boxmaker.{package}

import rego.v1

decision := {{"allow": true, "ask": {ask}, "reasons": {{"granted"}}}}
"""
RULES = '[destinations.local]\nbase_url = "unix:x"\n'


async def test_a_policy_that_allows_everything_cannot_allow_these(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.write("policy/all.rego", ALL.format(package="tool", ask="false"))
        brokerd.grant("no", mode="deny", hosts=["evil.example"])
        brokerd.grant("web", hosts=["example.org", "*.example.org"])
        recall, page = ("recall", {"query": "x"}), "https://example.org/"
        brokerd.egressd.page(page)
        for tool, arguments in (recall, ("http_fetch", {"url": page})):
            assert (await brokerd.tool(tool, arguments)).text == REASONS["session-not-open"]
        await brokerd.open()
        assert (await brokerd.tool(*recall)).ok
        for tool, arguments, reason in (
            ("recall", {"query": ""}, "arguments"),
            ("no_such_tool", {}, "tool-unknown"),
            ("http_fetch", {"url": "ftp://example.org/"}, "arguments"),
            ("run_command", {"command": "ls"}, "runtime-absent"),
            ("http_fetch", {"url": "https://evil.example/"}, "grant-denies"),
            ("http_fetch", {"url": "http://evil.example/"}, "grant-denies"),
            ("http_fetch", {"url": "https://other.example/"}, "host"),
            ("http_fetch", {"url": "http://example.org/"}, "scheme"),
        ):
            assert (await brokerd.tool(tool, arguments)).text.startswith(REASONS[reason])
        assert brokerd.egressd.fetches == []
        assert (await brokerd.fetch(page)).ok
        await brokerd.raise_label(Label(class_=DataClass.SECRET, untrusted=False))
        assert (await brokerd.fetch(page)).text == REASONS["taint"]
        brokerd.write("grants/x.toml", "x")
        assert (await brokerd.tool(*recall)).text == REASONS["grants-invalid"]
        assert (len(brokerd.memoryd.calls), len(brokerd.egressd.fetches)) == (1, 1)


@pytest.mark.parametrize(
    ("mode", "hosts", "reason"), [("ask", ["www.example.org"], "asks"), ("auto", ["*.example.org"], "untrusted-host")]
)
async def test_what_it_does_not_ask_the_owner_is_asked(home: Path, mode: str, hosts: list[str], reason: str) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        brokerd.write("policy/all.rego", ALL.format(package="tool", ask="false"))
        brokerd.grant("web", mode=mode, hosts=hosts)
        url = "https://www.example.org/"
        brokerd.egressd.page(url)
        await brokerd.open(label=Label(class_=DataClass.PRIVATE, untrusted=True))
        wanted = Wanted()
        tasks.start_soon(brokerd.asking, "http_fetch", {"url": url}, wanted)
        approval = await wanted.question()
        assert brokerd.audit("decision")[-1]["reasons"] == [reason]
        assert brokerd.egressd.fetches == []
        await brokerd.owner(ApprovalAnswer(approval=approval, allow=True, by="me"), Ok)
        assert (await wanted.answer()).ok


@pytest.mark.parametrize("ask", ["true", "false"])
async def test_nor_may_bytes_leave_undecided(home: Path, ask: str) -> None:
    async with running(home) as brokerd:
        brokerd.write("policy/all.rego", ALL.format(package="egress", ask=ask))
        brokerd.write("grants.toml", RULES)
        assert (await brokerd.leave("local")).reasons == ["session-not-open"]
        await brokerd.open()
        assert (await brokerd.leave("local")).allow is (ask == "false")
        assert (await brokerd.leave("nowhere")).reasons == ["destination"]
        await brokerd.raise_label(Label(class_=DataClass.SECRET, untrusted=False))
        assert (await brokerd.leave("local")).reasons == ["ceiling"]
        brokerd.write("grants.toml", "x")
        assert (await brokerd.leave("local")).reasons == ["rules-invalid"]


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
async def test_rules_that_cannot_be_read_are_invalid(home: Path, spoil: Callable[[Path], None]) -> None:
    async with running(home) as brokerd:
        brokerd.write("grants.toml", RULES)
        await brokerd.open()
        assert (await brokerd.leave("local")).allow
        (home / "grants.toml").unlink()
        spoil(home / "grants.toml")
        for _ in range(2):
            assert (await brokerd.leave("local")).reasons == ["rules-invalid"]


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
async def test_a_grant_that_cannot_be_read_closes(home: Path, spoil: Callable[[Path], None]) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"])
        spoil(home / "grants/no.toml")
        await brokerd.open()
        for _ in range(2):
            assert (await brokerd.tool("recall", {"query": "x"})).text == REASONS["grants-invalid"]


@pytest.mark.parametrize("folder", ["grants", "policy"])
@pytest.mark.parametrize("spoil", FOLDERS, ids=lambda spoil: spoil.__name__)
async def test_a_folder_that_is_there_and_cannot_be_read_denies(
    home: Path, folder: str, spoil: Callable[[Path], None]
) -> None:
    spoil(home / folder)
    async with running(home) as brokerd:
        await brokerd.open()
        assert (await brokerd.tool("recall", {"query": "x"})).text == REASONS[f"{folder}-invalid"]
        (home / folder).unlink()
        assert (await brokerd.tool("recall", {"query": "x"})).ok


async def test_a_policy_that_loaded_stays_when_its_folder_is_no_folder_any_more(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.write(
            "policy/r.rego", 'package boxmaker.root\n\nimport rego.v1\n\ndeny contains "policy-denies" if true\n'
        )
        await brokerd.open()
        assert (await brokerd.tool("recall", {"query": "x"})).text == REASONS["policy-denies"]
        (home / "policy").rename(home / "elsewhere")
        for spoil in FOLDERS:
            spoil(home / "policy")
            assert (await brokerd.tool("recall", {"query": "x"})).text == REASONS["policy-denies"]
            (home / "policy").unlink()


async def test_an_egressd_that_is_not_there_fails_the_call_with_its_sentence(home: Path) -> None:
    async with running(home, config='[egress]\nsocket = "run/nobody.sock"\n') as brokerd:
        brokerd.grant("web", hosts=["example.org"])
        await brokerd.open()
        reply = await brokerd.fetch("https://example.org/")
        assert (reply.ok, reply.text, label_of(reply)) == (False, FAULTS["egressd-unreachable"].sentence, PRIVATE)
        top = Label(class_=DataClass.SECRET, untrusted=True)
        assert await brokerd.raise_label(top) == top  # one that is not there has nothing under way


@pytest.mark.parametrize(
    "location", ["ftp://example.org/", "https://user@example.org/", "https://[x]/", "http://0x7f.1/"]
)
async def test_a_redirect_to_something_that_is_not_a_url_ends_the_fetch_under_the_grants_label(
    home: Path, location: str
) -> None:
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["*"], loopback=True)
        brokerd.egressd.redirect("https://example.org/", location)
        await brokerd.open()
        reply = await brokerd.fetch("https://example.org/")
        assert (reply.ok, reply.text) == (False, "the page redirects to something that is not a URL")
        assert label_of(reply).untrusted
        assert len(brokerd.egressd.fetches) == 1
