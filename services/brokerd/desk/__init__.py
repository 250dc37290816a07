"""What is asked over each socket, and who answers it: one module a peer."""
