"""Calling other people's programs: where they listen, how far a call may go, and what is wrong with an answer. One
of their uses is here, too: converting the versions of a custom resource.
"""
