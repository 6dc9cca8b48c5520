"""Ways of choosing what leaves the view when it grows too large."""
