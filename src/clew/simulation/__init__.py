"""Simulate what each context strategy would cost and keep on recorded sessions."""
