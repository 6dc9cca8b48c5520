"""Access to the web for tools: URLs, fetching, pages and search engines."""
