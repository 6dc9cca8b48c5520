"""What the edits of a session changed, as a net diff."""
