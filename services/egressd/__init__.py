"""egressd: every byte that leaves the box, decided, metered, and with its key put on here.

OWNS      state/egressd/ (usage.sqlite3: one row for each metered call; sessions/: whose sockets are open; outbox/:
          decision contexts that memoryd does not have yet; the spool of bodies under way), run/sessions/ (a socket for
          each open session).
READS     grants.toml (destinations), credentials.env, systemd's credentials folder and local/.virtual-key (keys),
          prices.toml, its own configuration.
ANSWERS   loopd, HTTP/1.1 on run/loop-egress: `/<destination>/…` with `X-Boxmaker-Session`, relayed as it comes; of a
          Mattermost server what is in a closed table, and its WebSocket, also with `X-Boxmaker-Channel` for no session;
          brokerd on run/broker-egress: one hop of a decided fetch, and a label that has risen;
          the programs of a session on run/sessions/<id>, HTTP/1.1: calls of models with the path of their API, `/mcp`,
          CONNECT; launcherd on run/launcher-egress: opens and closes those, and tells what a harness says it used;
          the owner on run/owner-egress: usage, cost, models, destinations, backup;
          every daemon on run/spans-egress, datagrams: spans, only while a collector is named.
CALLS     brokerd (may this call leave? tool calls that came over MCP), memoryd (to hand decision contexts over, never
          waited for by a call), the destinations of grants.toml, the hosts of decided fetches, and the owner's
          collector of traces.
NEVER     lets a byte of a call leave before brokerd allowed it; shows a key in an answer, a log or an error; connects
          to an address of a fetch that it did not check; follows a redirect; changes a byte of a body, but where a
          destination's `quirks` say so; passes on a credential of a client, but where its login is meant to pass.
FAULTS    Everything on a decision's path is a refusal: no brokerd, no readable grants.toml, no key, a label above the
          ceiling: 403. A tool call that is refused is a failed result of MCP, with its sentence. An upstream that fails
          is 502 or 504. A usage store that cannot be used stops the daemon.
"""
