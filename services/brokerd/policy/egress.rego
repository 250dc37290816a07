# The built-in policy of what may leave: a session's bytes, to a destination, now.
#
# What is spent is compared here: `facts.spent` is what the session and the day will have spent at the destination once
# this call has spent all that is reserved for it, `facts.limits` the owner's limits; -1 where there is none, or none is
# known. Tokens in and out, and nano-dollars.
#
# As in tool.rego: allowed only when every check has passed. Nobody is asked here, so `ask` is false. A root's own
# `deny` (package boxmaker.root) holds here too; input.decision is "egress".
package boxmaker.egress

import rego.v1

decision := {"allow": allow, "ask": false, "reasons": reasons}

default allow := false

allow if {
	count(failed) == 0
	count(denied) == 0
}

required := {
	"session-not-open",
	"rules-invalid",
	"destination",
	"ceiling",
	"tunnel-host",
	"hosted-tool",
	"unpriced",
	"spend",
}

failed := required - passed

passed contains "session-not-open" if input.session.open == true

passed contains "rules-invalid" if input.facts.rules_valid == true

passed contains "destination" if input.facts.destination_known == true

passed contains "ceiling" if {
	is_number(input.session.class_rank)
	is_number(input.facts.ceiling_rank)
	input.session.class_rank <= input.facts.ceiling_rank
}

passed contains "tunnel-host" if input.facts.tunnel_named == true

passed contains "hosted-tool" if input.facts.hosted_tools_named == true

passed contains "unpriced" if input.what in {"read", "tunnel"}

passed contains "unpriced" if {
	input.what == "call"
	priced("session_nusd")
	priced("day_nusd")
}

# A list of models spends nothing.
passed contains "spend" if input.what == "read"

# What a tunnel spends is not seen: no limit but that of nothing at all can hold there.
passed contains "spend" if {
	input.what == "tunnel"
	input.facts.limits.session_tokens != 0
	input.facts.limits.day_tokens != 0
}

passed contains "spend" if {
	input.what == "call"
	tokens_within("session_tokens")
	tokens_within("day_tokens")
	money_within("session_nusd")
	money_within("day_nusd")
}

tokens_within(name) if input.facts.limits[name] == -1

tokens_within(name) if {
	is_number(input.facts.limits[name])
	is_number(input.facts.spent[name])
	input.facts.spent[name] >= 0
	input.facts.spent[name] <= input.facts.limits[name]
}

# On a plan no money is spent.
money_within(name) if input.facts.spent.metered == false

money_within(name) if input.facts.limits[name] == -1

money_within(name) if {
	is_number(input.facts.limits[name])
	is_number(input.facts.spent[name])
	input.facts.spent[name] <= input.facts.limits[name]
}

priced(name) if input.facts.spent.metered == false

priced(name) if input.facts.limits[name] == -1

priced(name) if {
	is_number(input.facts.spent[name])
	input.facts.spent[name] >= 0
}

denied contains reason if some reason in data.boxmaker.root.deny

denied contains reason if some reason in data.rules.deny

denied contains "policy-invalid" if {
	data.boxmaker.root.deny
	not is_set(data.boxmaker.root.deny)
}

denied contains "policy-invalid" if {
	data.rules.deny
	not is_set(data.rules.deny)
}

# Reasons that only follow from another one are not told.
later := {"ceiling", "tunnel-host", "hosted-tool", "unpriced", "spend"}

moot contains reason if {
	failed["rules-invalid"]
	some reason in later | {"destination"}
}

moot contains reason if {
	some first in {"destination", "session-not-open"}
	failed[first]
	some reason in later
}

reasons contains reason if some reason in (failed - moot)

reasons contains reason if some reason in denied

reasons contains "within-ceiling" if allow
