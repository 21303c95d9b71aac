"""Makes the copy: plan, schema, rows, keys and indexes, leak scan. Runs in a process of its own (`__main__.py`).

All reading of the source, by several sessions at once, sees one exported snapshot. Rows go as `COPY (SELECT ...) TO
STDOUT` of one psql into `COPY ... FROM STDIN` of another, binary where both sides agree on the types, so that what
leaves the source's server is masked already, and this process never holds a row. Indexes, keys and triggers are made
after the rows. Nothing is created on the source.

The target is an empty database. When anything fails it is left as it is, for the caller to drop.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import re
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final

from steelyard.masking import checking, faults, planning, proving, reading, scanning, selecting, sessions, words
from steelyard.masking.catalogue import Catalogue, MaterialisedView
from steelyard.masking.expressions import literal, qualified, quoted
from steelyard.masking.job import Job, Verdict
from steelyard.masking.planning import Plan, TablePlan
from steelyard.masking.programs import Programs, in_memory, path_of
from steelyard.masking.sessions import SERVICE, Session

if TYPE_CHECKING:
    import psycopg

Tell = Callable[[dict[str, Any]], None]
"""Is given each line of progress."""

_DATABASE: Final = f"service={SERVICE}"
_WITHOUT: Final = (
    "--no-owner", "--no-acl", "--no-comments", "--no-publications", "--no-subscriptions", "--no-security-labels",
    "--no-tablespaces",
)  # fmt: skip
# What needs a superuser, speaks of other servers, or carries their passwords.
_LEFT_OUT: Final = re.compile(
    r"^\d+; \d+ \d+ (EVENT TRIGGER|SERVER|FOREIGN DATA WRAPPER|USER MAPPING|FOREIGN TABLE|FOREIGN SERVER|PUBLICATION|"
    r"SUBSCRIPTION|COMMENT|ACL|DEFAULT ACL|SECURITY LABEL|PROCEDURAL LANGUAGE|STATISTICS DATA|BLOB|BLOBS|"
    r"BLOB METADATA) "
)
_PAGES_AT_ONCE: Final = 65_536
"""A table of more than 512 MB is read in parts."""
_TID_RANGES_SINCE: Final = 140_000
_REFRESH_ROUNDS: Final = 50


def run(job: Job, tell: Tell) -> Verdict:
    """The whole of it; what goes wrong becomes a verdict."""
    import psycopg

    try:
        return _Copy(job, tell).run()
    except faults.Failed as failure:
        return Verdict("failed", str(failure))
    except psycopg.Error as error:
        return Verdict("failed", str(faults.of_driver(error, "making the copy")))


class _Copy:
    def __init__(self, job: Job, tell: Tell) -> None:
        self._job = job
        self._tell = tell
        self._scan_key = secrets.token_hex(16)
        self._programs = Programs(job.programs, time.monotonic() + job.deadline_seconds)
        self._source = sessions.of_source(job.source, job.key, self._scan_key)
        self._seconds: dict[str, float] = {}
        self._clear: words.Clear = {}

    def run(self) -> Verdict:
        if len(self._job.key.get_secret_value()) < 32:
            raise faults.Failed("the key is shorter than 32 characters")
        with self._source.open(autocommit=False) as source:
            snapshot = _one(source, "SELECT pg_catalog.pg_export_snapshot()")
            with self._stage("plan"):
                found = reading.read(source)
                plan = planning.plan(found, self._job.rules)
                refusals = plan.refusals
                if not refusals:
                    known = self._job.rules.known_literals
                    self._clear = words.clear(source, plan, self._job.sampled_rows, known)
                    refusals = proving.refusals(
                        source, found, plan, self._job.rules, scan_key=self._scan_key, clear=self._clear
                    )
            if self._job.target is None:
                return self._shown(source, plan, refusals)
            if refusals:
                count = len(refusals)
                message = f"the copy is refused for {count} reason{'s' if count > 1 else ''}: {refusals[0]}"
                return Verdict("refused", message, tuple(map(str, refusals)), notes=plan.notes)
            target = sessions.of_target(self._job.target, self._job.owner, self._scan_key)
            with in_memory("steelyard-schema") as archive, in_memory("steelyard-list") as entries:
                return self._made(source, target, snapshot, found, plan, archive, entries)

    def _shown(self, source: psycopg.Connection[Any], plan: Plan, refusals: Sequence[planning.Refusal]) -> Verdict:
        rows = checking.rows(source, plan, refusals)
        columns = tuple(row.to_json() for row in rows)
        if refusals:
            message = f"the copy would be refused for {len(refusals)} reasons"
            return Verdict("refused", message, tuple(map(str, refusals)), notes=plan.notes, columns=columns)
        return Verdict("planned", "the copy can be made", notes=plan.notes, columns=columns)

    def _made(
        self,
        source: psycopg.Connection[Any],
        target: Session,
        snapshot: str,
        found: Catalogue,
        plan: Plan,
        archive: int,
        entries: int,
    ) -> Verdict:
        with target.open() as connection:
            version = connection.info.server_version
            if _one(connection, _HAS_TABLES):
                raise faults.Failed(f"the target {target} is not empty: drop it and create it anew")
        with self._stage("schema"):
            self._dump_schema(snapshot, archive, entries)
            self._restore(target, "pre-data", archive, entries)
        same_version = version // 10_000 == found.version // 10_000
        with self._stage("rows"):
            rows = self._copy_rows(
                target, snapshot, plan, binary=same_version, ranges=found.version >= _TID_RANGES_SINCE
            )
            self._set_sequences(target, found)
        with concurrent.futures.ThreadPoolExecutor(1) as beside:
            scan = beside.submit(self._scan, source, target, plan)
            with self._stage("keys"):
                self._restore(target, "post-data", archive, entries)
                self._refresh(target, found)
            leaks = scan.result()
        if leaks:
            message = f"the leak scan found clear values in the copy: {leaks[0]}"
            return Verdict("leaked", message, (), tuple(map(str, leaks)), plan.notes, seconds=self._seconds)
        tables = sum(1 for table in plan.tables if table.copied)
        message = f"{rows} rows of {tables} tables were copied and masked"
        return Verdict("copied", message, (), (), plan.notes, tables, rows, self._seconds)

    def _dump_schema(self, snapshot: str, archive: int, entries: int) -> None:
        doing = "reading the source's schema"
        options = (
            "--format=custom",
            "--schema-only",
            f"--snapshot={snapshot}",
            *_WITHOUT,
            f"--file={path_of(archive)}",
        )
        self._programs.run("pg_dump", [*options, f"--dbname={_DATABASE}"], self._source, doing, fds=[archive])
        listed = self._programs.run("pg_restore", ["--list", path_of(archive)], None, doing, fds=[archive]).decode()
        kept = [line for line in listed.splitlines() if not _LEFT_OUT.match(line)]
        with open(entries, "wb", closefd=False) as file:
            file.write("\n".join([*kept, ""]).encode())

    def _restore(self, target: Session, section: str, archive: int, entries: int) -> None:
        jobs = self._job.workers if section == "post-data" else 1
        options = (
            *_WITHOUT,
            "--exit-on-error",
            f"--section={section}",
            f"--jobs={jobs}",
            f"--use-list={path_of(entries)}",
        )
        arguments = [*options, f"--dbname={_DATABASE}", path_of(archive)]
        self._programs.run("pg_restore", arguments, target, f"making the copy's {section}", fds=[archive, entries])

    def _copy_rows(self, target: Session, snapshot: str, plan: Plan, *, binary: bool, ranges: bool) -> int:
        parts = [
            (table, condition)
            for table in sorted(plan.tables, key=lambda each: -each.table.pages)
            if table.copied
            for condition in _parts(table, ranges=ranges)
        ]
        total, done = 0, 0
        with concurrent.futures.ThreadPoolExecutor(self._job.workers) as pool:
            pending = {
                pool.submit(self._copy_part, target, snapshot, table, condition, binary=binary and table.binary): table
                for table, condition in parts
            }
            try:
                for finished in concurrent.futures.as_completed(pending):
                    total += finished.result()
                    done += 1
                    self._tell({"stage": "rows", "done": done, "of": len(parts), "rows": total})
            except BaseException:
                for future in pending:
                    future.cancel()
                raise
        return total

    def _copy_part(self, target: Session, snapshot: str, plan: TablePlan, condition: str, *, binary: bool) -> int:
        how = ["FORMAT binary"] if binary else []
        script = (
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;\n"
            f"SET TRANSACTION SNAPSHOT {literal(snapshot)};\n"
            f"COPY ({selecting.select(plan, condition=condition)}) TO STDOUT{_with(how)};\n"
        )
        names = ", ".join(quoted(each.column.name) for each in plan.columns)
        whole = not condition and plan.into == qualified(plan.table.schema, plan.table.relation)
        if whole:
            # Rows of a table that the same transaction has emptied need no look at who wrote them later.
            how.append("FREEZE")
        statements = [
            "BEGIN",
            *([f"TRUNCATE ONLY {plan.into}"] if whole else []),
            f"COPY {plan.into}{f' ({names})' if names else ''} FROM STDIN{_with(how)}",
            "COMMIT",
        ]
        receiving = ["-X", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=terse", "-d", _DATABASE]
        receiving += [part for statement in statements for part in ("-c", statement)]
        with in_memory("steelyard-script", script.encode()) as file:
            # What the source complains of may quote a value: only the code is asked for.
            sending = ["-Xq", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=sqlstate", "-d", _DATABASE, "-f", path_of(file)]
            said = self._programs.pipe(
                (self._source, sending, [file]), (target, receiving), f"copying the rows of {plan.table.name}"
            )
        counted = re.findall(r"^COPY (\d+)$", said, re.MULTILINE)
        return int(counted[-1]) if counted else 0

    def _set_sequences(self, target: Session, found: Catalogue) -> None:
        with target.open() as connection:
            for sequence in found.sequences:
                connection.execute(
                    "SELECT pg_catalog.setval(%s::regclass, %s, %s)",
                    (qualified(sequence.schema, sequence.relation), sequence.last, sequence.called),
                )

    def _refresh(self, target: Session, found: Catalogue) -> None:
        """Materialised views may read each other: those that cannot be filled yet come again."""
        import psycopg

        pending = [view for view in found.views if view.populated]
        with target.open() as connection:
            for _ in range(_REFRESH_ROUNDS):
                left: list[MaterialisedView] = []
                for view in pending:
                    try:
                        connection.execute(
                            f"REFRESH MATERIALIZED VIEW {qualified(view.schema, view.relation)}".encode()
                        )
                    except psycopg.errors.ObjectNotInPrerequisiteState:
                        left.append(view)
                if not left:
                    break
                pending = left
            else:
                raise faults.Failed(f"the materialised view {pending[0].schema}.{pending[0].relation} cannot be filled")
            connection.execute("ANALYZE")

    def _scan(self, source: psycopg.Connection[Any], target: Session, plan: Plan) -> tuple[scanning.Leak, ...]:
        with self._stage("scan"), target.open() as connection:
            return scanning.leaks(
                source,
                connection,
                plan,
                scan_key=self._scan_key,
                clear=self._clear,
                sampled=self._job.sampled_rows,
                compared=self._job.compared_values,
            )

    @contextlib.contextmanager
    def _stage(self, name: str) -> Generator[None]:
        self._tell({"stage": name})
        started = time.monotonic()
        yield
        self._seconds[name] = round(time.monotonic() - started, 3)


def _parts(plan: TablePlan, *, ranges: bool) -> list[str]:
    """Conditions that together are all rows."""
    pages = plan.table.pages
    is_shuffled = any(each.mask.action == "shuffle" for each in plan.columns)
    if not ranges or is_shuffled or pages <= _PAGES_AT_ONCE:
        return [""]
    starts = list(range(0, pages, _PAGES_AT_ONCE))
    conditions = [f"t.ctid >= '({start},0)'::tid" for start in starts]
    for index, end in enumerate(starts[1:]):
        conditions[index] += f" AND t.ctid < '({end},0)'::tid"
    return conditions


def _with(options: Sequence[str]) -> str:
    return f" ({', '.join(options)})" if options else ""


def _one(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


_HAS_TABLES: Final = """
    SELECT EXISTS (SELECT FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
    WHERE r.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass
            AND d.objid = r.oid AND d.deptype = 'e'))"""
