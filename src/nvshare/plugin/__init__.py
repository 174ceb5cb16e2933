"""The kubelet device plugin: slots, containers, registration.

What belongs here: everything that kubelet asks, and the library that is installed for pods. What does not: scheduling.
"""
