"""The processes of ranks: how they start, and what surrounds them."""
