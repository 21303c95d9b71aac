"""Who may do what: RBAC, the roles a server starts with, service accounts and their tokens, impersonation."""
