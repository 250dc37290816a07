# The built-in policy of what may leave: a session's bytes, to a destination, now.
#
# `facts.spent` is what the session and the day will have spent at the destination once this call has spent all that is
# reserved for it, `facts.limits` the owner's limits; -1 where there is none, or none is known. Tokens in and out, and
# nano-dollars. They are compared in Python, like times and addresses: `facts.within` says which limits are kept,
# `facts.priced` whether those in money can be compared at all.
#
# Allowed only when every check has passed. Nobody is asked here, so `ask` is false. A root's own
# `deny` (package boxmaker.root) holds here too; input.decision is "egress".
package boxmaker.egress

import rego.v1

# What is allowed is told at once: why something is not is worked out only for a denial, and costs far more.
decision := {"allow": true, "ask": false, "reasons": {"within-ceiling"}} if allow

else := {"allow": false, "ask": false, "reasons": reasons}

default allow := false

allow if {
	open
	rules_valid
	destination
	ceiling
	channel_ceiling
	tunnel_host
	hosted_tool
	unpriced
	spend
	count(denied) == 0
}

# The checks, each under the name of its reason; one that is undefined has not passed.

open if input.session.open == true

# What the connection to Mattermost reads for itself has nothing of a session in it.
open if {
	input.what == "read"
	input.facts.of_no_session == true
}

rules_valid if input.facts.rules_valid == true

destination if input.facts.destination_known == true

ceiling if {
	is_number(input.session.class_rank)
	is_number(input.facts.ceiling_rank)
	input.session.class_rank <= input.facts.ceiling_rank
}

channel_ceiling if input.what in {"call", "read", "tunnel"}

channel_ceiling if {
	input.what == "post"
	is_number(input.session.class_rank)
	is_number(input.facts.channel_rank)
	input.session.class_rank <= input.facts.channel_rank
}

tunnel_host if input.facts.tunnel_named == true

hosted_tool if input.facts.hosted_tools_named == true

unpriced if input.what in {"read", "tunnel", "post"}

unpriced if {
	input.what == "call"
	input.facts.priced == true
}

# A list of models spends nothing, nor does a post.
spend if input.what in {"read", "post"}

# What a tunnel spends is not seen: no limit but that of nothing at all can hold there.
spend if {
	input.what == "tunnel"
	input.facts.limits.session_tokens != 0
	input.facts.limits.day_tokens != 0
}

spend if {
	input.what == "call"
	input.facts.within.session_tokens == true
	input.facts.within.day_tokens == true
	money
}

money if input.facts.spent.metered == false

money if {
	input.facts.within.session_nusd == true
	input.facts.within.day_nusd == true
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

failed contains "session-not-open" if not open

failed contains "rules-invalid" if not rules_valid

failed contains "destination" if not destination

failed contains "ceiling" if not ceiling

failed contains "channel-ceiling" if not channel_ceiling

failed contains "tunnel-host" if not tunnel_host

failed contains "hosted-tool" if not hosted_tool

failed contains "unpriced" if not unpriced

failed contains "spend" if not spend

# Reasons that only follow from another one are not told.
later := {"ceiling", "channel-ceiling", "tunnel-host", "hosted-tool", "unpriced", "spend"}

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
