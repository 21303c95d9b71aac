"""Who brings about what objects ask for, a folder per concern. Controllers import no provider: they meet at the
objects.
"""
