"""What logs show beyond the texts that signatures know. Pure."""
