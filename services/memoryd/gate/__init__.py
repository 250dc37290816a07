"""The check of every text that is to be remembered. Pure."""
