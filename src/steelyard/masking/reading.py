"""Reads a database's catalogue in one snapshot.

With `search_path` empty, so that what a tenant named like a built-in is never called. Of the rows themselves nothing is
read, only how many there may be. What belongs to an extension is left out: creating the extension brings it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from steelyard.masking.catalogue import (
    Catalogue,
    Check,
    Column,
    ForeignKey,
    MaterialisedView,
    Sequence,
    Table,
    TableKind,
    Text,
    Type,
    TypeKind,
    Unique,
)

if TYPE_CHECKING:
    import psycopg

_KINDS: Final[dict[str, TypeKind]] = {
    "b": "base", "d": "domain", "e": "enum", "c": "composite", "r": "range", "m": "multirange", "p": "pseudo",
}  # fmt: skip
_NOT_OURS: Final = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
_FROM_EXTENSION: Final = (
    "EXISTS (SELECT FROM pg_depend d WHERE d.classid = '{catalog}'::regclass AND d.objid = {oid} AND d.deptype = 'e')"
)


def read(connection: psycopg.Connection[Any]) -> Catalogue:
    """Of the connection's database; the connection is in its snapshot already."""
    return _Reader(connection).catalogue()


class _Reader:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._version = connection.info.server_version
        self._harmless = frozenset(row[0] for row in self._rows(_HARMLESS))

    def catalogue(self) -> Catalogue:
        types = self._types()
        return Catalogue(
            tables=tuple(self._tables(types)),
            sequences=tuple(self._sequences()),
            views=tuple(MaterialisedView(*row) for row in self._rows(_MATERIALISED)),
            texts=tuple(Text(where, text) for where, text in self._rows(_TEXTS) if text),
            comments=self._one(_COMMENTS),
            large_objects=self._one("SELECT count(*) FROM pg_largeobject_metadata"),
            extensions=tuple(row[0] for row in self._rows("SELECT extname FROM pg_extension ORDER BY 1")),
            version=self._version,
        )

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        # Nothing of these queries comes from outside.
        return self._connection.execute(query.encode()).fetchall()

    def _one(self, query: str) -> Any:
        return self._rows(query)[0][0]

    def _types(self) -> dict[int, dict[str, Any]]:
        checks: dict[int, list[Check]] = {}
        for oid, name, text, own in self._rows(_DOMAIN_CHECKS):
            checks.setdefault(oid, []).append(Check(name, text, (), own or self._does_more(text)))
        names = ("name", "kind", "built_in", "category", "element", "base", "typmod", "not_null", "labels", "extension")
        found: dict[int, dict[str, Any]] = {}
        for oid, *values in self._rows(_TYPES):
            found[oid] = {**dict(zip(names, values, strict=True)), "checks": tuple(checks.get(oid, ()))}
        return found

    def _tables(self, types: dict[int, dict[str, Any]]) -> Iterable[Table]:
        columns: dict[int, list[Column]] = {}
        generated_from: dict[tuple[int, str], tuple[str, ...]] = {
            (table, name): tuple(others) for table, name, others in self._rows(_GENERATED_FROM)
        }
        for table, name, type_oid, typmod, not_null, identity, generated, default, folds in self._rows(_COLUMNS):
            columns.setdefault(table, []).append(
                Column(
                    name,
                    resolve(types, type_oid, typmod),
                    not_null,
                    bool(identity),
                    bool(generated),
                    generated_from.get((table, name), ()),
                    None if generated else default,
                    folds,
                )
            )
        names: dict[int, str] = {}
        uniques: dict[int, list[Unique]] = {}
        nulls_distinct = "NOT i.indnullsnotdistinct" if self._version >= 150000 else "true"
        for table, *values in self._rows(_UNIQUES.replace("NULLS_DISTINCT", nulls_distinct)):
            name, index_columns, primary, exclusion, distinct, expression = values
            uniques.setdefault(table, []).append(
                Unique(name, tuple(index_columns), primary, exclusion, distinct, expression)
            )
        checks: dict[int, list[Check]] = {}
        for table, name, text, check_columns, own in self._rows(_TABLE_CHECKS):
            checks.setdefault(table, []).append(Check(name, text, tuple(check_columns), own or self._does_more(text)))
        rows = self._rows(_TABLES)
        for oid, schema, relation, *_ in rows:
            names[oid] = f"{schema}.{relation}"
        keys: dict[int, list[ForeignKey]] = {}
        for table, name, own_columns, target, target_columns, full in self._rows(_FOREIGN_KEYS):
            if target in names:
                keys.setdefault(table, []).append(
                    ForeignKey(name, tuple(own_columns), names[target], tuple(target_columns), full)
                )
        above = {row[0]: row[3] for row in rows}
        how: dict[int, tuple[str, list[str], bool]] = {
            oid: (strategy, list(key), expressions) for oid, strategy, key, expressions in self._rows(_PARTITIONED)
        }
        for oid, schema, relation, parent, kind, estimate, pages, extension in rows:
            ancestors: list[int] = []
            while parent is not None:
                ancestors.append(parent)
                parent = above.get(parent)
            strategies = [how[ancestor][0] for ancestor in ancestors if ancestor in how]
            yield Table(
                schema,
                relation,
                tuple(columns.get(oid, ())),
                _TABLE_KINDS.get(kind, "table"),
                names[ancestors[-1]] if ancestors else None,
                next((each for each in ("list", "range", "hash") if each in strategies), None),
                tuple(key for ancestor in ancestors if ancestor in how for key in how[ancestor][1]),
                any(how[ancestor][2] for ancestor in ancestors if ancestor in how),
                tuple(uniques.get(oid, ())),
                tuple(keys.get(oid, ())),
                tuple(checks.get(oid, ())),
                estimate,
                pages,
                extension,
            )

    def _does_more(self, expression: str) -> bool:
        """A check may call `lo_export` or `set_config` too: only what does nothing but compute is tried."""
        return any(name not in self._harmless for name in _CALL.findall(_QUOTED.sub("''", expression)))

    def _sequences(self) -> Iterable[Sequence]:
        from psycopg import sql

        for schema, relation in self._rows(_SEQUENCES):
            query = sql.SQL("SELECT last_value, is_called FROM {}").format(sql.Identifier(schema, relation))
            row = self._connection.execute(query).fetchone()
            assert row is not None
            yield Sequence(schema, relation, row[0], row[1])


def resolve(types: dict[int, dict[str, Any]], oid: int, typmod: int) -> Type:
    """Domains down to their base; lengths and precision out of the modifier."""
    domains: list[str] = []
    checks: list[Check] = []
    not_null = False
    found = types[oid]
    while found["kind"] == "d":
        domains.append(found["name"])
        checks += found["checks"]
        not_null = not_null or found["not_null"]
        if typmod < 0:
            typmod = found["typmod"]
        found = types[found["base"]]
    element = resolve(types, found["element"], typmod) if found["element"] in types else None
    length, precision, scale = _modifier(found["name"], typmod) if element is None else (None, None, None)
    return Type(
        found["name"],
        _KINDS[found["kind"]],
        found["built_in"],
        found["category"],
        length,
        precision,
        scale,
        found["labels"],
        element,
        tuple(domains),
        tuple(checks),
        not_null,
    )


def _modifier(name: str, typmod: int) -> tuple[int | None, int | None, int | None]:
    if typmod < 0:
        return None, None, None
    if name in ("character varying", "bpchar"):
        return typmod - 4, None, None
    if name in ('"bit"', "bit varying"):
        return typmod, None, None
    if name == "numeric":
        scale = (typmod - 4) & 0x7FF
        return None, ((typmod - 4) >> 16) & 0xFFFF, scale - 2048 if scale > 1023 else scale
    return None, None, None


_CALL: Final = re.compile(r'([a-z_][a-z0-9_]*|"(?:[^"]|"")*")\(')
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'")
# Types with a length look like calls. Whole tables as XML would read views, with whatever those call.
_HARMLESS: Final = """
    SELECT proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
    GROUP BY 1 HAVING bool_and(provolatile <> 'v' AND proname !~ '_to_xml')
    UNION ALL
    SELECT unnest(ARRAY['varying', 'bpchar', 'character', 'numeric', 'bit', 'time', 'timestamp', 'interval'])"""
# A function, operator or type of the database's own has an oid from 16384 on, and only such are recorded.
_OWN_CODE: Final = """EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_constraint'::regclass AND d.objid = c.oid
    AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass) AND d.refobjid >= 16384)"""
_TYPES: Final = """
    SELECT t.oid::bigint, CASE WHEN t.typtype IN ('d', 'e', 'c', 'r', 'm', 'b', 'p') THEN format_type(t.oid, -1) END,
        t.typtype::text, t.oid < 16384, t.typcategory::text,
        CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN t.typelem::bigint END, t.typbasetype::bigint, t.typtypmod,
        t.typnotnull, (SELECT count(*)::int FROM pg_enum e WHERE e.enumtypid = t.oid),
        (SELECT x.extname FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid
            WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e' LIMIT 1)
    FROM pg_type t"""
_DOMAIN_CHECKS: Final = f"""
    SELECT c.contypid::bigint, c.conname::text, pg_get_expr(c.conbin, 0), {_OWN_CODE}
    FROM pg_constraint c WHERE c.contypid <> 0 AND c.contype = 'c' ORDER BY c.conname"""
_TABLES: Final = f"""
    SELECT r.oid::bigint, n.nspname::text, r.relname::text,
        (SELECT i.inhparent::bigint FROM pg_inherits i WHERE i.inhrelid = r.oid AND r.relispartition),
        r.relkind::text, greatest(r.reltuples, 0)::bigint, (pg_relation_size(r.oid) / 8192)::bigint,
        {_FROM_EXTENSION.format(catalog="pg_class", oid="r.oid")}
    FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace
    WHERE r.relkind IN ('r', 'p', 'f') AND r.relpersistence <> 't' AND {_NOT_OURS} ORDER BY 2, 3"""
_COLUMNS: Final = """
    SELECT a.attrelid::bigint, a.attname::text, a.atttypid::bigint, a.atttypmod, a.attnotnull, a.attidentity <> '',
        a.attgenerated <> '', pg_get_expr(d.adbin, d.adrelid),
        EXISTS (SELECT FROM pg_collation l WHERE l.oid = a.attcollation AND NOT l.collisdeterministic)
    FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p', 'f') ORDER BY a.attrelid, a.attnum"""
_GENERATED_FROM: Final = """
    SELECT a.attrelid::bigint, a.attname::text, array_agg(b.attname::text)
    FROM pg_attribute a JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
        JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refobjid = a.attrelid
            AND d.refobjsubid <> a.attnum
        JOIN pg_attribute b ON b.attrelid = d.refobjid AND b.attnum = d.refobjsubid
    WHERE a.attgenerated <> '' GROUP BY 1, 2"""
_UNIQUES: Final = """
    SELECT i.indrelid::bigint, r.relname::text,
        ARRAY(SELECT DISTINCT a.attname::text FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum > 0 AND (
            a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) OR (i.indexprs IS NOT NULL AND EXISTS (
                SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                    AND d.refobjid = i.indrelid AND d.refobjsubid = a.attnum)))),
        i.indisprimary, i.indisexclusion, NULLS_DISTINCT,
        CASE WHEN i.indexprs IS NOT NULL THEN pg_get_indexdef(i.indexrelid) END
    FROM pg_index i JOIN pg_class r ON r.oid = i.indexrelid
    WHERE i.indisunique OR i.indisexclusion ORDER BY 1, 2"""
_TABLE_CHECKS: Final = f"""
    SELECT c.conrelid::bigint, c.conname::text, pg_get_expr(c.conbin, c.conrelid),
        ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey)),
        {_OWN_CODE}
    FROM pg_constraint c WHERE c.conrelid <> 0 AND c.contype = 'c' ORDER BY 1, 2"""
_FOREIGN_KEYS: Final = """
    SELECT c.conrelid::bigint, c.conname::text,
        ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k(n, i)
            JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.n ORDER BY k.i),
        c.confrelid::bigint,
        ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k(n, i)
            JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.n ORDER BY k.i),
        c.confmatchtype = 'f'
    FROM pg_constraint c WHERE c.contype = 'f' ORDER BY 1, 2"""
_PARTITIONED: Final = """
    SELECT p.partrelid::bigint, CASE p.partstrat WHEN 'l' THEN 'list' WHEN 'r' THEN 'range' ELSE 'hash' END,
        ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = p.partrelid
            AND a.attnum = ANY (p.partattrs::int2[]) AND a.attnum > 0), p.partexprs IS NOT NULL
    FROM pg_partitioned_table p"""
_SEQUENCES: Final = f"""
    SELECT n.nspname::text, r.relname::text FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace
    WHERE r.relkind = 'S' AND r.relpersistence <> 't' AND {_NOT_OURS}
        AND NOT {_FROM_EXTENSION.format(catalog="pg_class", oid="r.oid")} ORDER BY 1, 2"""
_MATERIALISED: Final = f"""
    SELECT n.nspname::text, r.relname::text, r.relispopulated
    FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace WHERE r.relkind = 'm' AND {_NOT_OURS}
    ORDER BY r.oid"""
_TABLE_KINDS: Final[dict[str, TableKind]] = {"p": "partitioned", "f": "foreign"}
_COMMENTS: Final = """
    SELECT count(*) FROM pg_description d WHERE d.objoid >= 16384 AND NOT EXISTS (SELECT FROM pg_depend e
        WHERE e.classid = d.classoid AND e.objid = d.objoid AND e.deptype = 'e')
        AND d.classoid <> 'pg_extension'::regclass"""
_TEXTS: Final = f"""
    SELECT format('the default of %s.%s.%s', n.nspname, r.relname, a.attname), pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attrdef d JOIN pg_class r ON r.oid = d.adrelid JOIN pg_namespace n ON n.oid = r.relnamespace
        JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE {_NOT_OURS}
    UNION ALL
    SELECT format('the %s %s of %s.%s', CASE c.contype WHEN 'c' THEN 'check constraint' ELSE 'constraint' END,
    c.conname,
        n.nspname, coalesce(r.relname, t.typname)), pg_get_constraintdef(c.oid)
    FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace LEFT JOIN pg_class r ON r.oid = c.conrelid
        LEFT JOIN pg_type t ON t.oid = c.contypid WHERE c.contype IN ('c', 'x') AND {_NOT_OURS}
    UNION ALL
    SELECT format('the enum %s.%s', n.nspname, t.typname), quote_literal(e.enumlabel)
    FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid JOIN pg_namespace n ON n.oid = t.typnamespace WHERE {_NOT_OURS}
    UNION ALL
    SELECT format('the default of the domain %s.%s', n.nspname, t.typname), quote_literal(t.typdefault)
    FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
    WHERE t.typtype = 'd' AND t.typdefault IS NOT NULL AND {_NOT_OURS}
    UNION ALL
    SELECT format('the bounds of the partition %s.%s', n.nspname, r.relname), pg_get_expr(r.relpartbound, r.oid)
    FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace WHERE r.relispartition AND {_NOT_OURS}
    UNION ALL
    SELECT format('the view %s.%s', n.nspname, r.relname), pg_get_viewdef(r.oid)
    FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace
    WHERE r.relkind IN ('v', 'm') AND {_NOT_OURS} AND NOT {_FROM_EXTENSION.format(catalog="pg_class", oid="r.oid")}
    UNION ALL
    SELECT format('the rule %s of %s.%s', w.rulename, n.nspname, r.relname), pg_get_ruledef(w.oid)
    FROM pg_rewrite w JOIN pg_class r ON r.oid = w.ev_class JOIN pg_namespace n ON n.oid = r.relnamespace
    WHERE w.rulename <> '_RETURN' AND {_NOT_OURS}
    UNION ALL
    SELECT format('the function %s.%s', n.nspname, p.proname),
        CASE p.prokind WHEN 'a' THEN (SELECT quote_nullable(g.agginitval) FROM pg_aggregate g WHERE g.aggfnoid = p.oid)
            ELSE pg_get_functiondef(p.oid) END
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE {_NOT_OURS} AND NOT {_FROM_EXTENSION.format(catalog="pg_proc", oid="p.oid")}
    UNION ALL
    SELECT format('the policy %s of %s.%s', o.polname, n.nspname, r.relname),
        concat_ws(' ', pg_get_expr(o.polqual, o.polrelid), pg_get_expr(o.polwithcheck, o.polrelid))
    FROM pg_policy o JOIN pg_class r ON r.oid = o.polrelid JOIN pg_namespace n ON n.oid = r.relnamespace
    UNION ALL
    SELECT format('the trigger %s of %s.%s', g.tgname, n.nspname, r.relname), pg_get_triggerdef(g.oid)
    FROM pg_trigger g JOIN pg_class r ON r.oid = g.tgrelid JOIN pg_namespace n ON n.oid = r.relnamespace
    WHERE NOT g.tgisinternal AND {_NOT_OURS}
    UNION ALL
    SELECT format('the index %s.%s', n.nspname, r.relname), pg_get_indexdef(i.indexrelid)
    FROM pg_index i JOIN pg_class r ON r.oid = i.indexrelid JOIN pg_namespace n ON n.oid = r.relnamespace
    WHERE (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND {_NOT_OURS}
    UNION ALL
    SELECT format('the statistics %s.%s', n.nspname, s.stxname), pg_get_statisticsobjdef(s.oid)
    FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE {_NOT_OURS}"""
