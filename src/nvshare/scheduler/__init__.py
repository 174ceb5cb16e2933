"""The daemon: sockets, identity, journal, metrics around one core.Node."""
