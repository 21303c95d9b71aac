"""A second kind of claim, a second infrastructure and an environment of one's own: a seam is real when a second thing
goes through it. All of it is handed over by public arguments.
"""
