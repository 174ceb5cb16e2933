"""The state of the core as plain values, for `nvsharectl`, metrics and the live page.

What belongs here: records, and the functions that fill them. They read the core and change nothing. What does not:
names and formats that users see (`nvshare.status_document`, `cli`)."""
