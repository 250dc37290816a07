"""One module a socket, named after who asks: match what is asked, call what does it."""
