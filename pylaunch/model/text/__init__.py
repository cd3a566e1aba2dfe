"""Text: foreign, secret, shortened, quoted."""
