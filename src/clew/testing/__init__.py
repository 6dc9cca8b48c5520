"""Stand-ins that ship: fake servers and conformance checks for your own code."""
