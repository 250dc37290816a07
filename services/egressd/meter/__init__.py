"""What a model call used, read from a copy of its answer: one module for each API, no I/O."""
