"""What people type: nvshare and nvsharectl."""
