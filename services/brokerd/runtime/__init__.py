"""Where a decided call runs: memory calls at memoryd, fetches at egressd, one hop at a time."""
