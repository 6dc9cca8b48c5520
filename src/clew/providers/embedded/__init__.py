"""A small language model that runs on this machine, in a process of its own."""
