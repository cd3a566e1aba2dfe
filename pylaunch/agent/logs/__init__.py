"""Log files of ranks: follow them, limit their size, index them by time, mask secrets."""
