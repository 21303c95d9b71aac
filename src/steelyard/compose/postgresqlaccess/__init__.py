"""From a PostgreSQLAccess to a login that ends by itself."""
