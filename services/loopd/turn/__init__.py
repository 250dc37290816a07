"""A turn: from what the owner said to the answer. `machine` decides without I/O; `driver` does what it says."""
