"""The embedded model: a small local model that runs in a process of its own."""
