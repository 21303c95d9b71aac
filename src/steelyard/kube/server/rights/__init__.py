"""Who is calling, and may they: decided here, from rules and tokens alone. Where rules and accounts are stored is
the matter of `access`.
"""
