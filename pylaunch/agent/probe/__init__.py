"""The probe: reads the state of a host. It is piped to the host and never installed there."""
