"""The owner's commands as typer sees them: one module a noun, one function a verb."""
