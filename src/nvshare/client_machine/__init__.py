"""libnvshare's client machine (native/libnvshare/client), driven from Python.

It is the code that runs in the user's process: turns, memory reports, joining, reconnecting, keep-alive. Nothing is
decided in this package. `machine` hands in the time, frames and what a program's threads did, and performs what comes
out, as the library's helper thread does. `library` declares the C structs and calls. client.h describes each call. What
does not belong here: decisions, which are in the C code, and models of programs (`schedsim`)."""
