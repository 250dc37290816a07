# The built-in policy of tool calls.
#
# The answer is `decision`: two booleans and a set of reasons, ids of proto.reasons. A call is allowed only when every
# check has passed; a check that is undefined has not passed. What is matched, compared with a clock or an address is
# computed in Python and comes in as booleans and integers (input.facts, input.now).
#
# A root's own rules go to {home}/policy/*.rego:
#
#   package boxmaker.root
#   deny contains "policy-denies" if input.session.untrusted   # denies; the reason is an id of proto.reasons
#   ask if input.now.hour_utc < 6                              # puts the question to the owner
#
# Helpers may stand in packages below boxmaker.root. A module of the package boxmaker.tool or boxmaker.egress takes the
# place of the built-in one, and can only be stricter: what the checks here deny or ask is denied or asked by brokerd
# itself too (guard.py), whatever such a module says. Rules of the record, when there are any, are the package `rules`.
package boxmaker.tool

import rego.v1

decision := {"allow": allow, "ask": ask, "reasons": reasons}

default allow := false

allow if {
	count(failed) == 0
	count(denied) == 0
}

default ask := false

ask if {
	count(asked) > 0
	not input.approved == true
}

required := {
	"session-not-open",
	"grants-invalid",
	"tool-unknown",
	"arguments",
	"runtime-absent",
	"no-grant",
} | of_grant

of_grant := {"grant-denies", "scheme", "host", "path", "pattern", "taint"}

failed := required - passed

passed contains "session-not-open" if input.session.open == true

passed contains "grants-invalid" if input.facts.grants_valid == true

passed contains "tool-unknown" if input.facts.tool_known == true

passed contains "arguments" if input.facts.arguments_valid == true

passed contains "runtime-absent" if input.facts.runtime_present == true

passed contains "no-grant" if is_object(input.grant)

passed contains "grant-denies" if input.grant.mode in {"auto", "ask"}

passed contains "scheme" if input.facts.scheme == true

passed contains "host" if input.facts.host == true

passed contains "path" if input.facts.path == true

passed contains "pattern" if input.facts.pattern == true

passed contains "taint" if {
	is_number(input.session.class_rank)
	is_number(input.grant.max_taint_rank)
	input.session.class_rank <= input.grant.max_taint_rank
}

denied contains reason if some reason in data.boxmaker.root.deny

denied contains reason if some reason in data.rules.deny

# A `deny` that is no set would deny nothing: it is a mistake, and a mistake denies.
denied contains "policy-invalid" if {
	data.boxmaker.root.deny
	not is_set(data.boxmaker.root.deny)
}

denied contains "policy-invalid" if {
	data.rules.deny
	not is_set(data.rules.deny)
}

asked contains "asks" if not input.grant.mode == "auto"

asked contains "untrusted-host" if not host_trusted

asked contains "policy-asks" if data.boxmaker.root.ask

# A session that has read untrusted content reaches without a question only the hosts that a grant names exactly.
host_trusted if input.session.untrusted == false

host_trusted if input.facts.reaches_host == false

host_trusted if input.facts.host_exact == true

# Reasons that only follow from another one are not told.
moot contains reason if {
	failed["no-grant"]
	some reason in of_grant
}

moot contains reason if {
	failed["tool-unknown"]
	some reason in ({"arguments", "runtime-absent", "no-grant"} | of_grant)
}

moot contains reason if {
	failed["grants-invalid"]
	some reason in ({"no-grant"} | of_grant)
}

reasons contains reason if some reason in (failed - moot)

reasons contains reason if some reason in denied

reasons contains reason if {
	allow
	ask
	some reason in asked
}

reasons contains "approved" if {
	allow
	input.approved == true
	count(asked) > 0
}

reasons contains "built-in" if {
	allow
	not ask
	input.grant.built_in == true
}

reasons contains "granted" if {
	allow
	not ask
	not input.grant.built_in == true
}
