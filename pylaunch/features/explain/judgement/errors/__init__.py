"""Lines that have the form of an error."""
