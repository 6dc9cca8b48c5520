"""Parse recorded request bodies back into `Request` values, one module per API."""
