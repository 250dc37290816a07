"""A session: its saved baseline, its log, the prompt that both make, and the room that is left in it."""
