"""The two wires of a relayed call, the client's and the upstream's: what decides has no I/O, what moves is small."""
