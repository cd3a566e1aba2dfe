"""Text: foreign, secret, quoted."""
