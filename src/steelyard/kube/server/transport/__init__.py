"""How a request comes in: connections, TLS and HTTP, and the way of each request past the stations
(`application.py`). Nobody but those who serve an API imports anything from here.
"""
