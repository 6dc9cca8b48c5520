"""Tool calls with their results, read once: what was run, read and changed."""
