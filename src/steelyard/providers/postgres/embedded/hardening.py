"""What every server of the platform's own is closed against, seen to at each start and idempotent."""

from __future__ import annotations

from typing import Final

import psycopg

from steelyard.providers.postgres import statements
from steelyard.providers.postgres.servers import APPLICATION, told

_TIMEOUT: Final = 10


async def close(host: str, port: int, username: str, password: str) -> None:
    """Nobody but the administrator connects to `postgres` and `template1`."""
    with told():
        async with await psycopg.AsyncConnection.connect(
            host=host,
            port=port,
            user=username,
            password=password,
            dbname="postgres",
            sslmode="disable",
            autocommit=True,
            connect_timeout=_TIMEOUT,
            application_name=APPLICATION,
        ) as connection:
            found = await connection.execute(
                "SELECT datname FROM pg_database WHERE datname IN ('postgres', 'template1') AND "
                "EXISTS (SELECT FROM aclexplode(coalesce(datacl, acldefault('d', datdba))) WHERE grantee = 0)"
            )
            for (name,) in await found.fetchall():
                await connection.execute(
                    statements.of("REVOKE ALL ON DATABASE {} FROM PUBLIC", statements.name(str(name)))
                )
