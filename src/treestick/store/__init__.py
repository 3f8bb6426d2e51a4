"""What chains leave behind: their posterior draws, on disk."""

from treestick.store.draws import DrawRecord, DrawStore

__all__ = ["DrawRecord", "DrawStore"]
