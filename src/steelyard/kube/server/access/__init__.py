"""Where rights come from: the stored roles and bindings, the ones a server starts with, service accounts,
impersonation, and the questions one can ask about all that.
"""
