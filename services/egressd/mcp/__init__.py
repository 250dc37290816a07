"""`/mcp` on a session's own socket: the tools that brokerd allows the session, over MCP."""
