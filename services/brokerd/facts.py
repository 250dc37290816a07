"""What the policy is told: facts as booleans and integers, computed here, and never by Rego.

The arguments of a call are there too, for a root's own rules; the built-in policy does not look at them. They go in
whole, once they have the tool's shape, or the call is refused: what is left out, no rule could deny.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from brokerd.grants.fit import Fit, Subject, subject_of
from brokerd.grants.grant import Grant
from brokerd.grants.shelf import GrantSet, choose
from brokerd.sessions import REOPENED, Session
from proto.canon import compact
from proto.labels import PUBLIC, DataClass, Label
from proto.messages.broker import EgressAsk
from proto.rules import Destination, Rules, Spend
from proto.tools import TOOLS, parse_arguments

TOOL: Final = "boxmaker/tool/decision"
EGRESS: Final = "boxmaker/egress/decision"
RUNTIMES: Final = ("memoryd", "egressd")
"""The runtimes that there are; launcherd's tools have none yet."""
_MOST_VALUES: Final = 4000
_MOST_BYTES: Final = 1 << 20
"""Of arguments as JSON. The engine's time grows with the square of the number of values; 4,000 are 0.1 s."""

_MOST_HOSTED_TOOLS: Final = 100
TOKENS: Final = ("session_tokens", "day_tokens")
MONEY: Final = ("session_nusd", "day_nusd")
_SPENT: Final = (*TOKENS, *MONEY)
_LEAST: Final = {**dict.fromkeys(TOKENS, 0), **dict.fromkeys(MONEY, -1)}
_NO_LIMIT: Final = Spend()
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A call to decide on. `approved` says that the owner allowed exactly this, under this label."""

    session: Session | None
    label: Label
    tool: str
    arguments: dict[str, Any]
    approved: bool = False


class Facts(msgspec.Struct, frozen=True):
    """The policy's input, the grant that it is about, and what is wrong with the arguments, if anything."""

    term: dict[str, Any]
    grant: Grant | None
    subject: Subject
    fit: Fit
    problem: str | None


def label_of_nobody(ask: EgressAsk) -> Label:
    """The label of bytes whose session is not known: the strictest, but for what is of no session at all."""
    return PUBLIC if ask.session is None else strictest()


def strictest() -> Label:
    """The label of a session that nobody knows."""
    return REOPENED


def of_tool(question: Question, grants: GrantSet, now: datetime) -> Facts:
    """The input for a tool call."""
    subject, problem = _subject(question)
    known = question.tool in TOOLS
    chosen = choose(grants.matching(question.tool), subject, question.label) if not grants.problems else None
    fit = chosen.fit if chosen else Fit()
    term = {
        "decision": "tool",
        "tool": question.tool,
        "arguments": question.arguments if problem is None else {},
        "approved": question.approved,
        "session": _session(question.session, question.label),
        "grant": _grant(chosen.grant) if chosen else None,
        "facts": {
            "grants_valid": not grants.problems,
            "tool_known": known,
            "arguments_valid": known and problem is None,
            "runtime_present": known and TOOLS[question.tool].runtime in RUNTIMES,
            "scheme": fit.scheme,
            "host": fit.host,
            "host_exact": fit.host_exact,
            "path": fit.path,
            "pattern": fit.pattern,
            "reaches_host": subject.url is not None,
        },
        "host": subject.url.host if subject.url else "",
        "now": _now(now),
    }
    return Facts(term, chosen.grant if chosen else None, subject, fit, problem)


def of_egress(
    ask: EgressAsk, session: Session | None, label: Label, rules: Rules | None, now: datetime
) -> dict[str, Any]:
    """The input for bytes that would leave; `rules` is None when grants.toml cannot be read."""
    destination = rules.destinations.get(ask.destination) if rules else None
    set_limits = limits(rules.spend.get(ask.destination, _NO_LIMIT) if rules else _NO_LIMIT)
    will_be_spent = spent(ask)
    return {
        "decision": "egress",
        "destination": ask.destination,
        "method": ask.method,
        "path": ask.path,
        "what": ask.what,
        "model": ask.model,
        "hosted_tools": ask.hosted_tools[:_MOST_HOSTED_TOOLS],
        "spending": msgspec.to_builtins(ask.spending),
        "session": _session(session, label),
        "facts": {
            "rules_valid": rules is not None,
            "destination_known": destination is not None and answers(ask, destination),
            "of_no_session": destination is not None and is_of_no_session(ask, destination),
            "ceiling_rank": destination.ceiling.rank if destination else -1,
            "channel_rank": channel_rank(ask, rules),
            "tunnel_named": destination is not None and names_tunnel(ask, destination),
            "hosted_tools_named": destination is not None and names_hosted_tools(ask, destination),
            "limits": set_limits,
            "spent": will_be_spent,
            "within": within(set_limits, will_be_spent),
            "priced": is_priced(set_limits, will_be_spent),
        },
        "now": _now(now),
    }


def answers(ask: EgressAsk, destination: Destination) -> bool:
    """Whether a destination is of the kind that is asked for: posts go to a Mattermost server."""
    return ask.what != "post" or destination.is_mattermost


def is_of_no_session(ask: EgressAsk, destination: Destination) -> bool:
    """Whether it is what the connection to Mattermost reads for itself: there is nothing of a session in it."""
    return ask.session is None and ask.what == "read" and destination.is_mattermost


def channel_rank(ask: EgressAsk, rules: Rules | None) -> int:
    """The rank of the highest class that may be posted in the channel; -1 where none is named or known."""
    if ask.what != "post":
        return DataClass.SECRET.rank
    if rules is None or ask.channel is None:
        return -1
    return rules.mattermost.ceiling(ask.channel, direct=ask.direct).rank


def names_tunnel(ask: EgressAsk, destination: Destination) -> bool:
    """Whether a destination has the tunnel that is asked for; True where none is."""
    if ask.what != "tunnel":
        return True
    host, _, port = ask.path.rpartition(":")
    return _PORT.fullmatch(port) is not None and destination.names_tunnel(host, int(port))


def names_hosted_tools(ask: EgressAsk, destination: Destination) -> bool:
    """Whether a destination allows every tool run by the provider that a request names."""
    named = ask.hosted_tools
    return not named or (len(named) <= _MOST_HOSTED_TOOLS and set(named) <= set(destination.hosted_tools))


@lru_cache
def limits(spend: Spend) -> Mapping[str, int]:
    """The limits of a destination; -1 where there is none."""
    found = {name: getattr(spend, name) for name in _SPENT}
    return {name: -1 if value is None else value for name, value in found.items()}


def spent(ask: EgressAsk) -> dict[str, Any]:
    """What will be spent once a call has spent all that is reserved for it; -1 where that is not known."""
    if ask.spending is None:
        return {**dict.fromkeys(_SPENT, -1), "metered": True}
    return {name: -1 if value is None else value for name, value in msgspec.structs.asdict(ask.spending).items()}


def within(limits: Mapping[str, int], spent: Mapping[str, Any]) -> dict[str, bool]:
    """Whether each limit is kept. Tokens that are not known keep none; money that is not known is `is_priced`'s."""
    return {name: limits[name] < 0 or _LEAST[name] <= spent[name] <= limits[name] for name in _SPENT}


def is_priced(limits: Mapping[str, int], spent: Mapping[str, Any]) -> bool:
    """Whether every limit in money can be compared with what is spent; on a plan no money is."""
    return not spent["metered"] or all(limits[name] < 0 or spent[name] >= 0 for name in MONEY)


def _subject(question: Question) -> tuple[Subject, str | None]:
    try:
        subject = subject_of(parse_arguments(question.tool, question.arguments))
        _check_size(question.arguments)
    except KeyError:
        return Subject(), "there is no such tool"
    except ValueError as error:
        return Subject(), str(error)
    return subject, None


def _check_size(arguments: dict[str, Any]) -> None:
    """Refuse more than the policy is given.

    Raises:
        ValueError: there are too many values, or too many bytes.

    """
    if _values(arguments) > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES} values")
    if len(compact(arguments).encode()) > _MOST_BYTES:
        raise ValueError(f"longer than {_MOST_BYTES} bytes")


def _values(value: Any) -> int:
    """How many values there are in one, itself and the keys among them."""
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(_values, value.values()))
    return 1 + sum(map(_values, value)) if isinstance(value, list) else 1


def _session(session: Session | None, label: Label) -> dict[str, Any]:
    return {
        "open": session is not None and session.open,
        "kind": session.session_kind if session else "",
        "principal": session.principal if session else "",
        "principal_class_rank": session.principal_class.rank if session else 0,
        "domain": session.domain if session else "",
        "destination": session.destination if session else "",
        "class_rank": label.class_.rank,
        "untrusted": label.untrusted,
    }


def _grant(grant: Grant) -> dict[str, Any]:
    return {
        "built_in": grant.built_in,
        "mode": grant.says.mode,
        "max_taint_rank": grant.says.max_taint.rank,
        "result_class_rank": grant.says.result_class.rank,
        "result_untrusted": grant.says.untrusted,
    }


def _now(now: datetime) -> dict[str, int]:
    return {"unix_s": int(now.timestamp()), "hour_utc": now.hour, "minute": now.minute, "weekday": now.isoweekday()}
