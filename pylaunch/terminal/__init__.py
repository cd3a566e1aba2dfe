"""The terminal as verbs and features share it: output, documents, hints, options and tables."""
