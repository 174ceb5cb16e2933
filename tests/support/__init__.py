"""What tests of several areas share: a real scheduler as a process, a client that speaks the wire by script."""
