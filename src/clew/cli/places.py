"""Where Clew keeps things on this machine."""

from clew.sdk.places import store_path, user_folder

__all__ = ["store_path", "user_folder"]
