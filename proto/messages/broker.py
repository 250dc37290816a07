"""What brokerd is asked: sessions and labels, tool calls, approvals, may-this-leave, and the owner's questions."""

from typing import Annotated, Any, Final, Literal

import msgspec

from proto.ids import ApprovalId, CallId, DestinationName, DomainId, MattermostId, SessionId
from proto.labels import DataClass
from proto.messages.wire import Error, Reply, Request, Traced
from proto.tools import check_arguments

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
MOST_ASKS: Final = 32
"""Questions of egressd that go together."""


class SessionOpen(Request, frozen=True, tag="session_open"):
    """Opens a session, or resumes it (`new` false); answered `session_state`.

    `session_kind` is what the contract calls the session's kind; the frame's own `kind` has taken that name.
    `principal` is who began it, `principal_class` the highest class that the principal may see.
    """

    session: SessionId
    new: bool
    session_kind: Literal["chat", "mattermost", "run"]
    principal: str
    principal_class: DataClass
    domain: DomainId
    destination: DestinationName
    auth: Literal["subscription", "key", "gateway", "none"]
    tree: str | None
    task: str | None
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool


class SessionLabel(Request, frozen=True, tag="session_label"):
    """Raises a session's label; never lowers it. To egressd: the label has risen; close what is now too low."""

    session: SessionId
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool


class SessionClose(Request, frozen=True, tag="session_close"):
    """Closes a session; answered with its final label."""

    session: SessionId


class SessionReopen(Request, frozen=True, tag="session_reopen"):
    """The owner reopens a session whose state is lost, as secret and untrusted."""

    session: SessionId


class SessionState(Reply, frozen=True, tag="session_state"):
    """A session's label, on disk before this is said."""

    session: SessionId
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool


class ToolRequest(Request, frozen=True, tag="tool_request"):
    """A tool call of a session; answered `tool_response`, perhaps after one `approval_wanted`."""

    session: SessionId
    call: CallId
    tool: str
    arguments: dict[str, Any]

    def __post_init__(self) -> None:
        """Refuse arguments that JSON has not, or that are nested too deep."""
        check_arguments(self.arguments)


class ToolResponse(Reply, frozen=True, tag="tool_response"):
    """The result, or a refusal (`ok` false, the fixed sentence, private, not untrusted)."""

    call: CallId
    ok: bool
    text: str
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool


class ApprovalWanted(Reply, frozen=True, tag="approval_wanted"):
    """The call waits for the owner; `text` is escaped, `expires` is RFC 3339 in UTC. The `tool_response` follows."""

    approval: ApprovalId
    text: str
    expires: str


class ApprovalAnswer(Request, frozen=True, tag="approval_answer"):
    """The owner's answer; `by` says through what (`bxctl`, `chat`, a Mattermost user)."""

    approval: ApprovalId
    allow: bool
    by: str


class ApprovalIgnored(Request, frozen=True, tag="approval_ignored"):
    """Somebody answered an approval and it did not count, `why`: not the owner, again, or too late. For the audit."""

    session: SessionId
    approval: ApprovalId
    by: str
    why: Literal["foreign", "repeated", "late"]


class Spending(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is spent at a destination once a call has spent all that is reserved for it.

    Tokens in and out, and nano-dollars (None where the model has no price); of the session, and of all of them today.
    What other calls have reserved is in it.
    """

    session_tokens: Count
    day_tokens: Count
    session_nusd: Count | None
    day_nusd: Count | None
    metered: bool


class EgressAsk(Traced, frozen=True):
    """May this session's bytes go to this destination, now? Asked at the last moment before the first one leaves.

    `what`: a `call` of a model, a `read` that spends nothing (a list of models, a count), a `tunnel` (method CONNECT,
    the host and port as the path), or a `post` in a `channel` of Mattermost, `direct` when the owner alone reads it.
    `session` is None for what the connection to Mattermost reads for itself. `hosted_tools` are tools run by the
    provider that the request names; when the call is allowed, the session is untrusted before this is answered.
    `spending` is None where nothing is spent. `trace` is that of the call.
    """

    session: SessionId | None
    call: CallId
    destination: DestinationName
    method: str
    path: str
    what: Literal["call", "read", "tunnel", "post"] = "call"
    model: str = ""
    hosted_tools: list[str] = msgspec.field(default_factory=list)
    spending: Spending | None = None
    channel: MattermostId | None = None
    direct: bool = False


class EgressDecision(Reply, frozen=True, tag="egress_decision"):
    """Whether, by which reasons (ids of `proto.reasons`), under which label, and the session's domain."""

    allow: bool
    reasons: list[str]
    message: str
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool
    domain: DomainId | None


class EgressAsks(Request, frozen=True, tag="egress_asks"):
    """Questions that wait at the same time, of any sessions."""

    asks: Annotated[list[EgressAsk], msgspec.Meta(min_length=1, max_length=MOST_ASKS)]


class EgressDecisions(Reply, frozen=True, tag="egress_decisions"):
    """The answer to each question, in their order: a decision, or what was at fault with this question alone."""

    answers: list[EgressDecision | Error]


class ToolsList(Request, frozen=True, tag="tools_list"):
    """Asks for the tools that a session may call over MCP."""

    session: SessionId


class ToolsListReply(Reply, frozen=True, tag="tools_list_reply"):
    """The names of the tools, ids of `proto.tools`."""

    tools: list[str]


class Approvals(Request, frozen=True, tag="approvals"):
    """Asks for the approvals that wait."""


class Approval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call that waits for the owner; `text` is escaped."""

    approval: ApprovalId
    session: SessionId
    call: CallId
    tool: str
    text: str
    asked: str
    expires: str
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool


class ApprovalsReply(Reply, frozen=True, tag="approvals_reply"):
    """The waiting approvals, oldest first."""

    approvals: list[Approval]


class Grants(Request, frozen=True, tag="grants"):
    """Asks for the grants in force and what is wrong with any file of them."""


class GrantRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A grant: its id (the file's stem, or `builtin-…`), and what it allows."""

    grant: str
    sha256: str
    tool: str
    mode: Literal["auto", "ask", "deny"]
    max_taint: DataClass
    result_class: DataClass
    untrusted: bool
    hosts: list[str]
    paths: list[str]
    patterns: list[str]
    loopback: bool


class GrantsReply(Reply, frozen=True, tag="grants_reply"):
    """The grants, and the problems; with any problem every call is denied."""

    grants: list[GrantRow]
    problems: list[str]


class PolicyShow(Request, frozen=True, tag="policy_show"):
    """Asks for the modules of the policy in force."""


class PolicyModule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Rego module: its name, where it comes from, its text, and why it is left out, if so."""

    name: str
    origin: Literal["built-in", "root", "record"]
    text: str
    problem: str | None


class PolicyShowReply(Reply, frozen=True, tag="policy_show_reply"):
    """The modules, and the problem that makes every call denied, if there is one."""

    modules: list[PolicyModule]
    problem: str | None


class PolicyEval(Request, frozen=True, tag="policy_eval"):
    """Asks what the policy would say to a made-up decision; nothing runs and nothing is logged."""

    tool: str
    arguments: dict[str, Any]
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool
    session: SessionId | None = None

    def __post_init__(self) -> None:
        """Refuse arguments that JSON has not, or that are nested too deep."""
        check_arguments(self.arguments)


class PolicyEvalReply(Reply, frozen=True, tag="policy_eval_reply"):
    """The verdict, its reasons, the grant that matched, and the facts that the policy was given (JSON text)."""

    verdict: Literal["allow", "ask", "deny"]
    reasons: list[str]
    grant: str | None
    facts: str


class SessionLabels(Request, frozen=True, tag="session_labels"):
    """Asks for the sessions that brokerd knows, with their labels."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session as brokerd holds it."""

    session: SessionId
    session_kind: str
    principal: str
    destination: str
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool
    open: bool
    opened: str


class SessionLabelsReply(Reply, frozen=True, tag="session_labels_reply"):
    """The sessions, newest first, at most 1,000 of them."""

    sessions: list[SessionRow]


class Decisions(Request, frozen=True, tag="decisions"):
    """Asks for the last decisions (default 20), of one session or of all."""

    last: int | None = None
    session: SessionId | None = None


class DecisionsReply(Reply, frozen=True, tag="decisions_reply"):
    """Lines of audit/decisions.jsonl as they are stored, newest last."""

    decisions: list[dict[str, Any]]
