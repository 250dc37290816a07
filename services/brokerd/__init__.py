"""brokerd: every decision, and the label of every session.

OWNS     audit/ (decisions.jsonl, chained), state/brokerd/ (sessions and their labels, approvals, the audit's head).
READS    grants/*.toml (tool grants), policy/*.rego (the root's own rules), grants.toml (ceilings of destinations).
ANSWERS  loopd: session_open, session_label, tool_request, approval_answer, session_close.
         egressd: egress_asks, with a policy worker of its own; it waits for no session and calls no daemon; on a socket
         of their own tools_list and tool_request, for what came over MCP.
         bxctl: approvals, approval_answer, grants, policy_show, policy_eval, session_labels, session_reopen, decisions,
         verify, backup.
CALLS    memoryd (memory_call), egressd (fetch, one hop at a time; session_label when a label rises).
NEVER    lowers a label, runs a call before its decision is on disk, hands a result out before its label is, lets a text
         that a model wrote into Rego but as a JSON term, or reads a failure of the policy as anything but a denial.
FAULTS   brokerd-start-failed, session-exists, session-state-lost, session-not-open, approval-unknown;
         egressd-unreachable for a label that egressd, being there, could not be told of. A refused or failed call is
         no fault: it is a tool_response with ok false.

Begin with `calls`, the life of one tool call. `decide` makes a decision out of facts (`facts`, `grants/`) and the
policy's verdict (`policy/`, evaluated in a process of its own), and `guard` keeps it from being laxer than the built-in
checks; `runtime/` does what was decided; `taint` is where labels rise.
"""
