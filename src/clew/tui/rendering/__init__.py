"""Turns blocks into text for a terminal: sanitized, wrapped, and with no sequence but colours."""

from clew.tui.rendering.block_text import render_block
from clew.tui.rendering.live_text import render_live
from clew.tui.rendering.preview_text import render_preview

__all__ = ["render_block", "render_live", "render_preview"]
