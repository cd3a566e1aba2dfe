"""Errors that no signature knows: uncaught exceptions, and the class that the words of an error show."""
