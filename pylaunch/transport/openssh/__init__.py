"""Everything that speaks OpenSSH's command line: only `transport` imports it.

connector    the `Connector` of a host that is reached over SSH
options      the words given to every ssh
sharing      the directory and the path of shared connections, and closing them
identity     what distinguishes shared connections
failures     reason and hint for what ssh prints when it fails
"""
