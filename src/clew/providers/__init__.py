"""Ways of reaching models: a protocol, and adapters that never lean on each other."""
