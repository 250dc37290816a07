"""The tools as the model sees them: their schemas, the calls that a model makes, and the two that loopd serves."""
