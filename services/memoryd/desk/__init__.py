"""One module for each socket: it matches the request, calls an act, and puts the answer into its message."""
