# The built-in policy of what may leave: a session's bytes, to a destination, now.
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

required := {"session-not-open", "rules-invalid", "destination", "ceiling"}

failed := required - passed

passed contains "session-not-open" if input.session.open == true

passed contains "rules-invalid" if input.facts.rules_valid == true

passed contains "destination" if input.facts.destination_known == true

passed contains "ceiling" if {
	is_number(input.session.class_rank)
	is_number(input.facts.ceiling_rank)
	input.session.class_rank <= input.facts.ceiling_rank
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
moot contains reason if {
	failed["rules-invalid"]
	some reason in {"destination", "ceiling"}
}

moot contains "ceiling" if failed["destination"]

moot contains "ceiling" if failed["session-not-open"]

reasons contains reason if some reason in (failed - moot)

reasons contains reason if some reason in denied

reasons contains "within-ceiling" if allow
