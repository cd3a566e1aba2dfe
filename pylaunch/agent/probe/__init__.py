"""The probe: reads what a host looks like. It is piped to a host and never installed there."""
