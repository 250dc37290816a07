"""What stands between a change and the main branch, and the generators of the files that it compares."""
