"""MCP servers as tools, resources and prompts. Only `connection` and what it uses load the SDK."""
