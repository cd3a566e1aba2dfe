"""Command-line flags, parsed once into values."""
