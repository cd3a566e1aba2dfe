"""Host keys: which are trusted, and how a person comes to trust new ones."""
