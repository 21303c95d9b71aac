"""From a PostgreSQLInstance to a database with its owner and its login: `composing.py` first, which asks the others."""
