"""The DRA driver: offers each GPU as a shared device, whose memory kube-scheduler places and nvshare enforces.

`devices`, `claims` and `cdi` are pure. What does not belong here: the limits of prepared claims while their pods run,
which the scheduler enforces.
"""
