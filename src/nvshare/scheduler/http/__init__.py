"""The HTTP server, read only: metrics, health, status and the live page.

What belongs here: HTTP and the files of the page. What does not: the figures themselves (`observe`).
"""
