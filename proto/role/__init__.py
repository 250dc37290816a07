"""How a daemon runs: its command line, configuration, sockets, calls, logs, journals, clock. No domain word is here."""
