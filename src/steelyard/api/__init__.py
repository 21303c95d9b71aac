"""The kinds: one typed model per kind, from which definitions, reference pages and the flags of commands are made."""
