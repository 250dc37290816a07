"""What loopd answers: one module for each peer."""
