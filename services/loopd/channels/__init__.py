"""Where sessions are spoken in beside the terminal: one package for each channel."""
