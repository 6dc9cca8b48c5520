"""What a recorded session would have cost and kept under each context strategy."""
