"""How each API puts a scripted reply on the wire."""
