"""The generated pages of docs/: what the source says, for a reader who has no editor open on it."""
