"""`clew serve`: sessions over REST, server-sent events and WebSocket; a client of `clew.sdk`."""
