"""Anonymised copies of PostgreSQL databases: rules in, a masked copy out, and no clear value on the way.

The stages, each a module:

1. `rules`: what a user says of tables and columns.
2. `catalogue`, `reading`: what the database has, read in one snapshot.
3. `planning` (with `naming`, `keys`, `fitting`): what happens to each column, or every reason why the copy is refused.
Pure.
4. `proving`: what only the rows can tell: checks, domains, constants, clear values in the schema's own texts.
5. `expressions` (with `vocabulary`), `selecting`: the SQL that masks, inside the source's read-only snapshot. Pure.
6. `copying`: schema, rows, sequences, keys and indexes, by pg_dump, psql and pg_restore.
7. `scanning`: the leak scan, before anybody may connect.
8. `checking`: the table that `steelyard db anonymise --check` prints.

A copy is made by a process of its own, `python -m steelyard.masking`, which reads a `job.Job` as JSON from its standard
input and writes lines of JSON: progress, then one verdict. Killed at any moment it leaves nothing but the target
database, which the caller drops and makes anew. Nothing here knows kinds, providers or the command line; psycopg is
imported when a connection is opened.
"""
