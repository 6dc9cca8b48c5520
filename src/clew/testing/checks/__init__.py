"""What every provider must do, one module per kind of promise; see `clew.testing.providers`."""
