"""The tests: they mirror the source; `shape` checks the tree, `gate` runs and generates."""
