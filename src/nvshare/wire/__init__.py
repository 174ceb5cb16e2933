"""The protocol between the scheduler and libnvshare: messages and their bytes. Pure."""
