"""The conformance checks of providers by topic; see `clew.testing.providers`."""
