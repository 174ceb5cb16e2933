"""The DRA driver: offers each GPU as a shared device, whose memory kube-scheduler places and nvshare enforces.

What belongs here: ResourceSlices, and what kubelet asks when a pod with a claim starts or ends; `devices`, `claims` and
`cdi` are pure. What does not: the limits of prepared claims while their pods run, which the scheduler enforces.
"""
